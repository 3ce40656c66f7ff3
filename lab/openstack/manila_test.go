package openstack_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/messages"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/sharetypes"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/snapshots"
	"github.com/gophercloud/gophercloud/v2/pagination"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/openstack"
)

func must2(t *testing.T) func(pagination.Page, error) pagination.Page {
	return must[pagination.Page](t)
}

// newShare creates a share and waits for nothing: a cloud without latency is done with the next request.
func (c *clients) newShare(t *testing.T, name string, change ...func(*shares.CreateOpts)) *shares.Share {
	t.Helper()
	options := shares.CreateOpts{ShareProto: "NFS", Size: 2, Name: name, ShareType: "default"}
	for _, do := range change {
		do(&options)
	}
	return must[*shares.Share](t)(shares.Create(c.ctx, c.manila, options).Extract())
}

func (c *clients) share(t *testing.T, id string) *shares.Share {
	t.Helper()
	return must[*shares.Share](t)(shares.Get(c.ctx, c.manila, id).Extract())
}

func TestShareLifecycle(t *testing.T) {
	cloud := openstack.Start(t, "default")
	c := mustConnect(t, cloud.Login())
	created := c.newShare(t, "pvc-1", func(o *shares.CreateOpts) { o.Metadata = map[string]string{"cluster": "one"} })
	assert.Equal(t, "creating", created.Status, "a new share")
	share := c.share(t, created.ID)
	if share.Status != "available" || share.Size != 2 || share.Metadata["cluster"] != "one" || share.ShareTypeName != "default" || !share.SnapshotSupport ||
		!share.CreateShareFromSnapshotSupport || share.CreatedAt.IsZero() {
		t.Errorf("share %+v", share)
	}
	if merged := must[map[string]string](t)(shares.SetMetadata(c.ctx, c.manila, share.ID, shares.SetMetadataOpts{Metadata: map[string]string{"node": "a"}}).Extract()); len(merged) != 2 {
		t.Errorf("metadata %v", merged)
	}

	locations := must[[]shares.ExportLocation](t)(shares.ListExportLocations(c.ctx, c.manila, share.ID).Extract())
	if len(locations) != 2 || locations[0].Preferred || !locations[1].Preferred || !strings.HasSuffix(locations[1].Path, ":"+cloud.Shares()[0].ExportPath()) {
		t.Errorf("export locations %+v", locations)
	}

	rule := must[*shares.AccessRight](t)(shares.GrantAccess(c.ctx, c.manila, share.ID, shares.GrantAccessOpts{AccessType: "ip", AccessTo: "0.0.0.0/0", AccessLevel: "rw"}).Extract())
	assert.Equal(t, "queued_to_apply", rule.State, "a new rule")
	rules := must[[]shares.AccessRight](t)(shares.ListAccessRights(c.ctx, c.manila, share.ID).Extract())
	if len(rules) != 1 || rules[0].State != "active" || rules[0].ID != rule.ID || rules[0].AccessKey != "" {
		t.Errorf("rules %+v", rules)
	}
	_, err := shares.GrantAccess(c.ctx, c.manila, share.ID, shares.GrantAccessOpts{AccessType: "ip", AccessTo: "0.0.0.0/0", AccessLevel: "rw"}).Extract()
	wantFault(t, err, 400, "Share access ip:0.0.0.0/0 exists.")

	require.NoError(t, shares.Extend(c.ctx, c.manila, share.ID, shares.ExtendOpts{NewSize: 5}).ExtractErr())
	if share = c.share(t, share.ID); share.Size != 5 || share.Status != "available" {
		t.Errorf("the share has %d GiB and is %s after it was extended to 5", share.Size, share.Status)
	}

	snapshot := must[*snapshots.Snapshot](t)(snapshots.Create(c.ctx, c.manila, snapshots.CreateOpts{ShareID: share.ID, Name: "snap"}).Extract())
	assert.Equal(t, "creating", snapshot.Status, "a new snapshot")
	if snapshot = must[*snapshots.Snapshot](t)(snapshots.Get(c.ctx, c.manila, snapshot.ID).Extract()); snapshot.Status != "available" || snapshot.ShareSize != 5 {
		t.Errorf("snapshot %+v", snapshot)
	}
	wantFault(t, shares.Delete(c.ctx, c.manila, share.ID).ExtractErr(), 403, "Share still has 1 dependent snapshots.")
	restored := c.newShare(t, "pvc-2", func(o *shares.CreateOpts) { o.SnapshotID, o.Size = snapshot.ID, 5 })
	if restored.SnapshotID != snapshot.ID || restored.Status != "creating" {
		t.Errorf("a restored share %+v", restored)
	}

	for _, err := range []error{
		shares.RevokeAccess(c.ctx, c.manila, share.ID, shares.RevokeAccessOpts{AccessID: rule.ID}).ExtractErr(),
		snapshots.Delete(c.ctx, c.manila, snapshot.ID).ExtractErr(),
		shares.Delete(c.ctx, c.manila, restored.ID).ExtractErr(),
		shares.Delete(c.ctx, c.manila, share.ID).ExtractErr(),
	} {
		assert.NoError(t, err)
	}
	if left := cloud.Shares(); len(left) > 0 || len(cloud.ShareSnapshots()) > 0 {
		t.Errorf("left %+v and %+v", left, cloud.ShareSnapshots())
	}
	wantFault(t, shares.Delete(c.ctx, c.manila, share.ID).ExtractErr(), 404, "The resource could not be found.")
}

// TestOlderShareStates: before microversion 2.28, a rule has the state of all rules, and before 2.54 nobody sees that a
// share comes from a snapshot.
func TestOlderShareStates(t *testing.T) {
	cloud := openstack.Start(t, "default")
	c := mustConnect(t, cloud.Login())
	share := c.newShare(t, "pvc-1")
	c.manila.Microversion = "2.27"
	options := shares.GrantAccessOpts{AccessType: "ip", AccessTo: "192.0.2.1", AccessLevel: "rw"}
	assert.Equal(t, "new", must[*shares.AccessRight](t)(shares.GrantAccess(c.ctx, c.manila, share.ID, options).Extract()).State, "a new rule")
	assert.Equal(t, "active", must[[]shares.AccessRight](t)(shares.ListAccessRights(c.ctx, c.manila, share.ID).Extract())[0].State, "the rule")
	snapshot := must[*snapshots.Snapshot](t)(snapshots.Create(c.ctx, c.manila, snapshots.CreateOpts{ShareID: share.ID}).Extract())
	c.manila.Microversion = "2.54"
	if restored := c.newShare(t, "pvc-2", func(o *shares.CreateOpts) { o.SnapshotID = snapshot.ID }); restored.Status != "creating_from_snapshot" {
		t.Errorf("the restored share is %s", restored.Status)
	}
}

func TestCephRule(t *testing.T) {
	cloud := openstack.Start(t, "default")
	c := mustConnect(t, cloud.Login())
	share := c.newShare(t, "pvc-1", func(o *shares.CreateOpts) { o.ShareProto = "CEPHFS" })
	must[any](t)(shares.GrantAccess(c.ctx, c.manila, share.ID, shares.GrantAccessOpts{AccessType: "cephx", AccessTo: "pvc-1", AccessLevel: "rw"}).Extract())
	must[any](t)(shares.GrantAccess(c.ctx, c.manila, share.ID, shares.GrantAccessOpts{AccessType: "ip", AccessTo: "192.0.2.1", AccessLevel: "rw"}).Extract())
	rules := must[[]shares.AccessRight](t)(shares.ListAccessRights(c.ctx, c.manila, share.ID).Extract())
	if rules[0].State != "active" || rules[0].AccessKey == "" || rules[1].State != "error" {
		t.Errorf("rules %+v, want an active one with a key, and one in error: Ceph knows no addresses", rules)
	}
}

func TestShareRefusals(t *testing.T) {
	cloud := openstack.Start(t, "default")
	cloud.AddShareType(openstack.ShareType{Name: "plain", ExtraSpecs: map[string]string{"snapshot_support": "False"}})
	cloud.AddShareType(openstack.ShareType{Name: "served", Servers: true})
	cloud.AddShareType(openstack.ShareType{Name: "theirs", Projects: []string{"island"}})
	cloud.SetQuota(openstack.Quota{Shares: 3, ShareGigabytes: 10, ShareSnapshots: 1})
	c := mustConnect(t, cloud.Login())
	one := c.newShare(t, "one")
	plain := c.newShare(t, "plain", func(o *shares.CreateOpts) { o.ShareType = "plain" })
	snapshot := must[*snapshots.Snapshot](t)(snapshots.Create(c.ctx, c.manila, snapshots.CreateOpts{ShareID: one.ID, Name: "snap"}).Extract())
	for name, test := range map[string]struct {
		change  func(*shares.CreateOpts)
		code    int
		message string
	}{
		"protocol":           {func(o *shares.CreateOpts) { o.ShareProto = "9P" }, 400, "Invalid share protocol provided: 9P."},
		"type":               {func(o *shares.CreateOpts) { o.ShareType = "gold" }, 404, "Share type not found."},
		"type of others":     {func(o *shares.CreateOpts) { o.ShareType = "theirs" }, 404, "Share type not found."},
		"zone":               {func(o *shares.CreateOpts) { o.AvailabilityZone = "moon" }, 404, "Availability zone moon could not be found."},
		"snapshot":           {func(o *shares.CreateOpts) { o.SnapshotID = "none" }, 404, "Snapshot none could not be found."},
		"less than snapshot": {func(o *shares.CreateOpts) { o.SnapshotID, o.Size = snapshot.ID, 1 }, 400, "must be equal or greater than snapshot size"},
		"no network":         {func(o *shares.CreateOpts) { o.ShareType = "served" }, 400, "Share network must be set"},
		"unknown network":    {func(o *shares.CreateOpts) { o.ShareNetworkID = "none" }, 404, "Share network none could not be found."},
		"quota":              {func(o *shares.CreateOpts) { o.Size = 7 }, 413, "ShareSizeExceedsAvailableQuota: Requested share exceeds"},
	} {
		options := shares.CreateOpts{ShareProto: "NFS", Size: 2, Name: name, ShareType: "default"}
		test.change(&options)
		_, err := shares.Create(c.ctx, c.manila, options).Extract()
		wantFault(t, err, test.code, test.message)
	}
	wantFault(t, shares.Extend(c.ctx, c.manila, one.ID, shares.ExtendOpts{NewSize: 1}).ExtractErr(), 400, "New size for extend must be greater")
	wantFault(t, shares.Extend(c.ctx, c.manila, one.ID, shares.ExtendOpts{NewSize: 99}).ExtractErr(), 403, "exceeds allowed project/user or share type gigabytes quota")
	c.newShare(t, "three")
	_, err := shares.Create(c.ctx, c.manila, shares.CreateOpts{ShareProto: "NFS", Size: 1, ShareType: "default"}).Extract()
	wantFault(t, err, 413, "ShareLimitExceeded: Maximum number of shares allowed (3)")
	_, err = snapshots.Create(c.ctx, c.manila, snapshots.CreateOpts{ShareID: plain.ID}).Extract()
	wantFault(t, err, 422, "since it does not have that capability")
	_, err = snapshots.Create(c.ctx, c.manila, snapshots.CreateOpts{ShareID: one.ID}).Extract()
	wantFault(t, err, 413, "SnapshotLimitExceeded")
	_, err = shares.GrantAccess(c.ctx, c.manila, one.ID, shares.GrantAccessOpts{AccessType: "ip", AccessTo: "everybody", AccessLevel: "rw"}).Extract()
	wantFault(t, err, 400, "everybody")

	cloud.AddProject("island")
	login := cloud.Login()
	login.Project = "island"
	other := mustConnect(t, login)
	_, err = shares.Get(c.ctx, other.manila, one.ID).Extract()
	wantFault(t, err, 404, "The resource could not be found.")
}

// TestShareNetwork: shares of types with share servers need a network, and others must not have one.
func TestShareNetwork(t *testing.T) {
	cloud := openstack.Start(t, "default")
	cloud.AddShareType(openstack.ShareType{Name: "served", Servers: true})
	network := cloud.AddShareNetwork()
	c := mustConnect(t, cloud.Login())
	served := c.newShare(t, "served", func(o *shares.CreateOpts) { o.ShareType, o.ShareNetworkID = "served", network })
	if got := c.share(t, served.ID); got.Status != "available" || got.ShareNetworkID != network {
		t.Errorf("share %+v", got)
	}
	wrong := c.newShare(t, "wrong", func(o *shares.CreateOpts) { o.ShareNetworkID = network })
	assert.Equal(t, "error", c.share(t, wrong.ID).Status, "the share")
}

// TestFailedOperations: Manila accepts a request and fails later; a message says why.
func TestFailedOperations(t *testing.T) {
	cloud := openstack.Start(t, "default")
	c := mustConnect(t, cloud.Login())
	wantMessage := func(resource, detail, text string) {
		t.Helper()
		pages := must2(t)(messages.List(c.manila, messages.ListOpts{ResourceID: resource, MessageLevel: "ERROR", Limit: 1, SortKey: "created_at", SortDir: "desc"}).AllPages(c.ctx))
		found := must[[]messages.Message](t)(messages.ExtractMessages(pages))
		if len(found) != 1 || found[0].DetailID != detail || !strings.Contains(found[0].UserMessage, text) {
			t.Errorf("messages %+v, want detail %s with %q", found, detail, text)
		}
	}
	cloud.Fail(openstack.CreateShare, openstack.NoCapacity)
	failed := c.newShare(t, "failed")
	assert.EqualValues(t, "error", c.share(t, failed.ID).Status, "the share")
	wantMessage(failed.ID, "009", "Capacity filter didn't succeed")
	good := c.newShare(t, "good")
	for operation, request := range map[openstack.Operation]func() error{
		openstack.ExtendShare: func() error {
			return shares.Extend(c.ctx, c.manila, good.ID, shares.ExtendOpts{NewSize: 3}).ExtractErr()
		},
		openstack.DeleteShare: func() error { return shares.Delete(c.ctx, c.manila, failed.ID).ExtractErr() },
	} {
		cloud.Fail(operation, "")
		assert.NoError(t, request(), operation)
	}
	if got := c.share(t, good.ID); got.Status != "extending_error" || got.Size != 2 {
		t.Errorf("the share is %s and has %d GiB, want extending_error and 2", got.Status, got.Size)
	}
	wantMessage(good.ID, "001", "An unknown error occurred.")
	assert.EqualValues(t, "error_deleting", c.share(t, failed.ID).Status, "the share")
	source := c.newShare(t, "source")
	c.share(t, source.ID)
	cloud.Fail(openstack.CreateShareSnapshot, "")
	snapshot := must[*snapshots.Snapshot](t)(snapshots.Create(c.ctx, c.manila, snapshots.CreateOpts{ShareID: source.ID}).Extract())
	assert.EqualValues(t, "error", must[*snapshots.Snapshot](t)(snapshots.Get(c.ctx, c.manila, snapshot.ID).Extract()).Status, "the snapshot")
}

// TestLatency: operations take as long as the cloud is told, however often it is asked.
func TestLatency(t *testing.T) {
	cloud := openstack.Start(t, "default")
	c := mustConnect(t, cloud.Login())
	cloud.SetLatency(time.Hour)
	slow := c.newShare(t, "slow")
	cloud.SetLatency(20 * time.Millisecond)
	began := time.Now()
	quick := c.newShare(t, "quick")
	for c.share(t, quick.ID).Status != "available" {
		require.LessOrEqual(t, time.Since(began), time.Minute, "the quick share is not available after a minute")
	}
	assert.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond, "available after")
	assert.EqualValues(t, "creating", c.share(t, slow.ID).Status, "the slow share")
	_, err := shares.GrantAccess(c.ctx, c.manila, slow.ID, shares.GrantAccessOpts{AccessType: "ip", AccessTo: "192.0.2.1", AccessLevel: "rw"}).Extract()
	wantFault(t, err, 400, "New access rules cannot be applied")
	wantFault(t, shares.Delete(c.ctx, c.manila, slow.ID).ExtractErr(), 403, "Share status must be one of")
}

func TestShareLists(t *testing.T) {
	cloud := openstack.Start(t, "default")
	cloud.AddShareType(openstack.ShareType{Name: "theirs", Projects: []string{"island"}})
	c := mustConnect(t, cloud.Login())
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		c.newShare(t, name)
	}
	names := func(options shares.ListOpts) (names []string) {
		t.Helper()
		for _, s := range must[[]shares.Share](t)(shares.ExtractShares(must2(t)(shares.ListDetail(c.manila, options).AllPages(c.ctx)))) {
			names = append(names, s.Name)
		}
		return names
	}
	before := len(cloud.Calls())
	assert.Empty(t, cmp.Diff([]string{"e", "d", "c", "b", "a"}, names(shares.ListOpts{Limit: 2})), "shares (-want +got)")
	if pages := len(cloud.Calls()) - before; pages != 4 { // gophercloud stops at an empty page
		t.Errorf("read in %d pages, want 4", pages)
	}
	assert.Equal(t, []string{"c"}, names(shares.ListOpts{Name: "c"}), "shares of the name c")
	assert.Empty(t, names(shares.ListOpts{Status: "error"}), "shares in error")
	types := must[[]sharetypes.ShareType](t)(sharetypes.ExtractShareTypes(must2(t)(sharetypes.List(c.manila, nil).AllPages(c.ctx))))
	if len(types) != 1 || types[0].ExtraSpecs["snapshot_support"] != "True" || types[0].RequiredExtraSpecs["driver_handles_share_servers"] != "False" {
		t.Errorf("share types %+v, want the public one alone", types)
	}
	specs := must[sharetypes.ExtraSpecs](t)(sharetypes.GetExtraSpecs(c.ctx, c.manila, types[0].ID).Extract())
	assert.EqualValuesf(t, "True", specs["create_share_from_snapshot_support"], "extra specs %v", specs)
}
