package gcp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/metadata"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/berth-csi/berth/lab/gcp"
)

// bed is a cloud with Google's client, which has the driver's permissions.
type bed struct {
	*gcp.Cloud
	t     *testing.T
	api   *compute.Service
	email string
	zone  string
}

func start(t *testing.T, options gcp.Options) *bed {
	t.Helper()
	c := gcp.Start(t, options)
	b := &bed{Cloud: c, t: t, zone: c.Zones()[0]}
	b.email = c.AddServiceAccount("driver", []string{"compute.instances.get", "compute.instances.attachDisk", "compute.instances.detachDisk"},
		"roles/compute.storageAdmin", "roles/iam.serviceAccountUser")
	b.api = b.client(c.NewKey(t, b.email))
	return b
}

// wire returns a context whose HTTP clients resolve all names to the cloud, and trust its CA.
func wire(t *testing.T, c *gcp.Cloud) context.Context {
	t.Helper()
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(c.CA())
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, c.Address())
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: transport})
}

// client returns a client that logs in with a file of Google's.
func (b *bed) client(file []byte) *compute.Service {
	b.t.Helper()
	ctx := wire(b.t, b.Cloud)
	//lint:ignore SA1019 the file is of the fake cloud, and may be of any type
	credentials, err := google.CredentialsFromJSON(ctx, file, compute.CloudPlatformScope)
	require.NoError(b.t, err)
	api, err := compute.NewService(ctx, option.WithHTTPClient(oauth2.NewClient(ctx, credentials.TokenSource)))
	require.NoError(b.t, err)
	return api
}

func (b *bed) source(disk string) string {
	return "projects/" + b.Project() + "/zones/" + b.zone + "/disks/" + disk
}

// finish waits for a zonal operation, which succeeds.
func (b *bed) finish(o *compute.Operation, err error) {
	b.t.Helper()
	require.NoError(b.t, err)
	if o.Status == "DONE" {
		b.t.Errorf("the operation %s has ended before anybody waits for it", o.OperationType)
	}
	done, err := b.api.ZoneOperations.Wait(b.Project(), b.zone, o.Name).Do()
	if err != nil || done.Status != "DONE" || done.Error != nil {
		b.t.Fatalf("the operation ended with %+v, error %v", done, err)
	}
}

func (b *bed) create(d *compute.Disk) *compute.Disk {
	b.t.Helper()
	b.finish(b.api.Disks.Insert(b.Project(), b.zone, d).Do())
	made, err := b.api.Disks.Get(b.Project(), b.zone, d.Name).Do()
	require.NoError(b.t, err)
	return made
}

// wantRefused fails the test unless the API refused a request for a reason.
func wantRefused(t *testing.T, err error, code int, reason, message string) {
	t.Helper()
	var refusal *googleapi.Error
	if !errors.As(err, &refusal) || refusal.Code != code || len(refusal.Errors) != 1 || refusal.Errors[0].Reason != reason || !strings.Contains(refusal.Message, message) {
		t.Errorf("got the error %v, want code %d, the reason %s and %q", err, code, reason, message)
	}
}

func TestDisks(t *testing.T) {
	b := start(t, gcp.Options{MaxGB: 100})
	_, err := b.api.Disks.Get(b.Project(), b.zone, "data").Do()
	wantRefused(t, err, 404, "notFound", "The resource 'projects/harbour-project/zones/us-central1-a/disks/data' was not found")

	made := b.create(&compute.Disk{Name: "data", SizeGb: 10, Type: "https://compute.googleapis.com/compute/v1/" + strings.Replace(b.source(""), "disks/", "diskTypes/pd-ssd", 1), Labels: map[string]string{"team": "harbour"}})
	if made.SizeGb != 10 || made.Status != "READY" || made.Labels["team"] != "harbour" || !strings.HasSuffix(made.Type, "/diskTypes/pd-ssd") || made.Id == 0 {
		t.Errorf("got the disk %+v", made)
	}
	for name, refused := range map[string]struct {
		disk            compute.Disk
		code            int
		reason, message string
	}{
		"again":      {compute.Disk{Name: "data", SizeGb: 10}, 409, "alreadyExists", "already exists"},
		"a name":     {compute.Disk{Name: "Data", SizeGb: 10}, 400, "invalid", "resource.name"},
		"a label":    {compute.Disk{Name: "more", SizeGb: 10, Labels: map[string]string{"a/b": "c"}}, 400, "invalid", "resource.labels"},
		"a size":     {compute.Disk{Name: "more", SizeGb: 70000}, 400, "invalid", "cannot be larger than 65536 GB"},
		"a type":     {compute.Disk{Name: "more", SizeGb: 10, Type: "pd-floppy"}, 400, "invalid", "disk type"},
		"a key":      {compute.Disk{Name: "more", SizeGb: 10, DiskEncryptionKey: &compute.CustomerEncryptionKey{KmsKeyName: "disks"}}, 400, "invalid", "kmsKeyName"},
		"the quota":  {compute.Disk{Name: "more", SizeGb: 91}, 403, "quotaExceeded", "Limit: 100.0"},
		"no origin":  {compute.Disk{Name: "more", SourceSnapshot: "projects/harbour-project/global/snapshots/none"}, 404, "notFound", "snapshots/none"},
		"no project": {compute.Disk{Name: "more", SourceDisk: "projects/other/zones/us-central1-a/disks/data"}, 404, "notFound", "projects/other"},
	} {
		_, err := b.api.Disks.Insert(b.Project(), b.zone, &refused.disk).Do()
		t.Run(name, func(t *testing.T) { wantRefused(t, err, refused.code, refused.reason, refused.message) })
	}

	b.finish(b.api.Disks.Resize(b.Project(), b.zone, "data", &compute.DisksResizeRequest{SizeGb: 20}).Do())
	_, err = b.api.Disks.Resize(b.Project(), b.zone, "data", &compute.DisksResizeRequest{SizeGb: 20}).Do()
	wantRefused(t, err, 400, "invalid", "must be larger")

	_, err = b.api.Disks.SetLabels(b.Project(), b.zone, "data", &compute.ZoneSetLabelsRequest{Labels: map[string]string{"a": "b"}, LabelFingerprint: "old"}).Do()
	wantRefused(t, err, 412, "conditionNotMet", "fingerprint")
	b.finish(b.api.Disks.SetLabels(b.Project(), b.zone, "data", &compute.ZoneSetLabelsRequest{Labels: map[string]string{"a": "b"}, LabelFingerprint: made.LabelFingerprint}).Do())

	b.create(&compute.Disk{Name: "other", SizeGb: 1})
	found, err := b.api.Disks.List(b.Project(), b.zone).Filter("name=data").Fields("items/name", "items/sizeGb").Do()
	if err != nil || len(found.Items) != 1 || found.Items[0].SizeGb != 20 || found.Items[0].Labels != nil {
		t.Errorf("the list has %+v, error %v; want the disk with only its name and size", found, err)
	}
	pages := 0
	if err := b.api.Disks.List(b.Project(), b.zone).MaxResults(1).Pages(t.Context(), func(*compute.DiskList) error { pages++; return nil }); err != nil || pages != 2 {
		t.Errorf("the list has %d pages, error %v; want 2", pages, err)
	}
	b.finish(b.api.Disks.Delete(b.Project(), b.zone, "data").Do())
	_, err = b.api.Disks.Delete(b.Project(), b.zone, "data").Do()
	wantRefused(t, err, 404, "notFound", "was not found")
	if left := b.DiskList(); len(left) != 1 || left[0].Name != "other" {
		t.Errorf("the cloud has the disks %+v", left)
	}
}

func TestRegionalDisks(t *testing.T) {
	b := start(t, gcp.Options{})
	disk := &compute.Disk{Name: "data", SizeGb: 10, Type: "pd-ssd", ReplicaZones: []string{"zones/us-central1-a"}}
	_, err := b.api.RegionDisks.Insert(b.Project(), b.Region(), disk).Do()
	wantRefused(t, err, 400, "invalid", "two replica zones")
	disk.ReplicaZones = append(disk.ReplicaZones, "zones/us-central1-b")
	o, err := b.api.RegionDisks.Insert(b.Project(), b.Region(), disk).Do()
	require.NoError(t, err)
	if done, err := b.api.RegionOperations.Wait(b.Project(), b.Region(), o.Name).Do(); err != nil || done.Status != "DONE" {
		t.Fatalf("the operation is %+v, error %v", done, err)
	}
	b.AddInstance("a", b.Zones()[2], "n2-standard-4")
	_, err = b.api.Instances.AttachDisk(b.Project(), b.Zones()[2], "a", &compute.AttachedDisk{Source: "projects/harbour-project/regions/us-central1/disks/data"}).Do()
	wantRefused(t, err, 400, "invalid", "same zone")
}

func TestAttach(t *testing.T) {
	b := start(t, gcp.Options{})
	b.AddInstance("first", b.zone, "n2-standard-4")
	b.AddInstance("second", b.zone, "n2-standard-4")
	b.create(&compute.Disk{Name: "data", SizeGb: 1})
	attach := func(instance, mode string) (*compute.Operation, error) {
		return b.api.Instances.AttachDisk(b.Project(), b.zone, instance, &compute.AttachedDisk{Source: b.source("data"), DeviceName: "data", Mode: mode}).Do()
	}
	detach := func(instance string) (*compute.Operation, error) {
		return b.api.Instances.DetachDisk(b.Project(), b.zone, instance, "data").Do()
	}
	_, err := attach("third", "")
	wantRefused(t, err, 404, "notFound", "instances/third")
	b.finish(attach("first", "READ_WRITE"))
	i, err := b.api.Instances.Get(b.Project(), b.zone, "first").Do()
	if err != nil || len(i.Disks) != 2 || i.Disks[1].DeviceName != "data" || i.Disks[1].Mode != "READ_WRITE" {
		t.Fatalf("the instance is %+v, error %v", i, err)
	}
	d, err := b.api.Disks.Get(b.Project(), b.zone, "data").Do()
	require.NoError(t, err)
	assert.Equal(t, []string{i.SelfLink}, d.Users, "the disk is used by")
	_, err = attach("second", "READ_WRITE")
	wantRefused(t, err, 400, "resourceInUseByAnotherResource", "already being used by 'projects/harbour-project/zones/us-central1-a/instances/first'")
	_, err = b.api.Disks.Delete(b.Project(), b.zone, "data").Do()
	wantRefused(t, err, 400, "resourceInUseByAnotherResource", "instances/first")
	_, err = b.api.Images.Insert(b.Project(), &compute.Image{Name: "copy", SourceDisk: b.source("data")}).Do()
	wantRefused(t, err, 400, "resourceInUseByAnotherResource", "instances/first")
	b.finish(detach("first"))
	_, err = detach("first")
	wantRefused(t, err, 400, "invalid", "No attached disk found with device name 'data'")
	_, err = b.api.Instances.DetachDisk(b.Project(), b.zone, "first", "persistent-disk-0").Do()
	wantRefused(t, err, 400, "invalid", "boot disk")
	b.finish(attach("first", "READ_ONLY"))
	b.finish(attach("second", "READ_ONLY"))
}

// TestContent: snapshots, images and clones have their origin's content, and disks of instances are devices of nodes.
func TestContent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make loop devices")
	}
	dir := t.TempDir()
	devices := gcp.NewDevices(func(instance string) (string, error) { return filepath.Join(dir, instance), nil })
	t.Cleanup(func() {
		assert.NoError(t, devices.Close())
	})
	b := start(t, gcp.Options{Disks: devices})
	b.AddInstance("node", b.zone, "n2-standard-4")
	// with returns the content of a disk, and writes text unless that is empty.
	with := func(disk, text string) string {
		t.Helper()
		b.finish(b.api.Instances.AttachDisk(b.Project(), b.zone, "node", &compute.AttachedDisk{Source: b.source(disk), DeviceName: disk}).Do())
		path, err := filepath.EvalSymlinks(filepath.Join(dir, "node/dev/disk/by-id/google-"+disk))
		require.NoErrorf(t, err, "the link to disk %s", disk)
		require.Equalf(t, "sdb", filepath.Base(path), "the link to disk %s", disk)
		device, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		content := make([]byte, 8)
		_, err = device.Read(content)
		require.NoError(t, err)
		if text != "" {
			_, err := device.WriteAt([]byte(text), 0)
			require.NoError(t, err)
		}
		require.NoError(t, errors.Join(device.Sync(), device.Close()))
		b.finish(b.api.Instances.DetachDisk(b.Project(), b.zone, "node", disk).Do())
		return strings.TrimRight(string(content), "\x00")
	}
	b.create(&compute.Disk{Name: "data", SizeGb: 1})
	with("data", "first")
	_, err := b.api.Snapshots.Insert(b.Project(), &compute.Snapshot{Name: "snapshot", SourceDisk: b.source("data"), Labels: map[string]string{"a": "b"}}).Do()
	require.NoError(t, err)
	snapshot, err := b.api.Snapshots.Get(b.Project(), "snapshot").Do()
	if err != nil || snapshot.Status != "READY" || snapshot.DiskSizeGb != 1 || snapshot.Labels["a"] != "b" {
		t.Fatalf("the snapshot is %+v, error %v", snapshot, err)
	}
	_, err = b.api.Images.Insert(b.Project(), &compute.Image{Name: "image", SourceDisk: b.source("data")}).Do()
	require.NoError(t, err)
	with("data", "later")
	from := map[string]string{}
	for name, d := range map[string]*compute.Disk{
		"of-snapshot": {SourceSnapshot: "projects/harbour-project/global/snapshots/snapshot"},
		"of-image":    {SourceImage: "projects/harbour-project/global/images/image"},
		"clone":       {SourceDisk: b.source("data")},
	} {
		d.Name, d.SizeGb = name, 2
		b.create(d)
		from[name] = with(name, "")
	}
	assert.Empty(t, cmp.Diff(map[string]string{"of-snapshot": "first", "of-image": "first", "clone": "later"}, from), "contents (-want +got)")
	_, err = b.api.Disks.Insert(b.Project(), b.zone, &compute.Disk{Name: "small", SizeGb: 1, SourceDisk: b.source("clone")}).Do()
	wantRefused(t, err, 400, "invalid", "cannot be smaller than the source disk size (2 GB)")
	_, err = b.api.Snapshots.Delete(b.Project(), "snapshot").Do()
	assert.NoError(t, err)
	_, err = b.api.Snapshots.Get(b.Project(), "snapshot").Do()
	wantRefused(t, err, 404, "notFound", "global/snapshots/snapshot")
}

// TestOperationsTakeTime: a client that does not wait finds a disk that is not ready.
func TestOperationsTakeTime(t *testing.T) {
	b := start(t, gcp.Options{Settle: time.Hour})
	o, err := b.api.Disks.Insert(b.Project(), b.zone, &compute.Disk{Name: "data", SizeGb: 1}).Do()
	require.NoError(t, err)
	if o, err = b.api.ZoneOperations.Get(b.Project(), b.zone, o.Name).Do(); err != nil || o.Status != "RUNNING" {
		t.Errorf("the operation is %+v, error %v; want it running", o, err)
	}
	if d, err := b.api.Disks.Get(b.Project(), b.zone, "data").Do(); err != nil || d.Status != "CREATING" {
		t.Errorf("the disk is %+v, error %v; want it to be created", d, err)
	}
	soon := start(t, gcp.Options{Settle: 10 * time.Millisecond})
	soon.create(&compute.Disk{Name: "data", SizeGb: 1})
}

func TestZonesAndTypes(t *testing.T) {
	b := start(t, gcp.Options{})
	zones, err := b.api.Zones.List(b.Project()).Filter("region eq .*us-central1$").Do()
	require.NoError(t, err)
	assert.Lenf(t, zones.Items, 3, "got %+v", zones)
	none, err := b.api.Zones.List(b.Project()).Filter("region eq .*us-central2$").Do()
	require.NoError(t, err)
	assert.Emptyf(t, none.Items, "got %+v", none)
	_, err = b.api.Zones.List(b.Project()).Filter("what?").Do()
	wantRefused(t, err, 400, "invalid", "Invalid list filter expression")
	types, err := b.api.DiskTypes.AggregatedList(b.Project()).Filter("name=pd-ssd").Do()
	require.NoError(t, err)
	assert.Lenf(t, types.Items["zones/us-central1-b"].DiskTypes, 1, "got %+v", types)
}

func TestWhoMay(t *testing.T) {
	b := start(t, gcp.Options{})
	stranger := b.AddServiceAccount("stranger", []string{"compute.disks.get"})
	other := b.client(b.NewKey(t, stranger))
	_, err := other.Disks.Get(b.Project(), b.zone, "data").Do()
	wantRefused(t, err, 404, "notFound", "was not found")
	_, err = other.Disks.Insert(b.Project(), b.zone, &compute.Disk{Name: "data", SizeGb: 1}).Do()
	wantRefused(t, err, 403, "forbidden", "Required 'compute.disks.create' permission")

	// A key that the cloud does not know, of an account that it does.
	foreign := gcp.Start(t, gcp.Options{})
	forged := foreign.NewKey(t, foreign.AddServiceAccount("driver", nil))
	_, err = b.client(forged).Zones.List(b.Project()).Do()
	assert.ErrorContains(t, err, "Invalid JWT Signature", "with an unknown key")
	bare, err := compute.NewService(t.Context(), option.WithHTTPClient(oauth2.NewClient(wire(t, b.Cloud), oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "ya29.old"}))))
	require.NoError(t, err)
	_, err = bare.Zones.List(b.Project()).Do()
	wantRefused(t, err, 401, "authError", "Invalid Credentials")
	calls := b.Calls()
	if last := calls[len(calls)-1]; last.Error != "authError" || last.Principal != "" {
		t.Errorf("the last call is recorded as %+v", last)
	}
}

func TestMetadata(t *testing.T) {
	b := start(t, gcp.Options{})
	server := httptest.NewServer(b.MetadataHandler(b.AddInstance("node", b.zone, "n2-standard-4")))
	defer server.Close()
	t.Setenv("GCE_METADATA_HOST", server.Listener.Addr().String())
	client := metadata.NewClient(server.Client())
	for name, ask := range map[string]struct {
		with func(context.Context) (string, error)
		want string
	}{
		"project": {client.ProjectIDWithContext, "harbour-project"},
		"zone":    {client.ZoneWithContext, "us-central1-a"},
		"name":    {client.InstanceNameWithContext, "node"},
		"type": {func(ctx context.Context) (string, error) { return client.GetWithContext(ctx, "instance/machine-type") },
			"projects/123456789012/machineTypes/n2-standard-4"},
	} {
		if got, err := ask.with(t.Context()); err != nil || got != ask.want {
			t.Errorf("%s: got %q, error %v; want %q", name, got, err, ask.want)
		}
	}
	var missing metadata.NotDefinedError
	_, err := client.InstanceAttributeValueWithContext(t.Context(), "none")
	assert.ErrorAs(t, err, &missing, "an attribute that is missing")
}
