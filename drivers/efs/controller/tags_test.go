package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	efssdk "github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/controller"
	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/lab/aws"
	fakeefs "github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/aws/gateway"
	"github.com/berth-csi/berth/lab/aws/iam"
)

// The tags by which access points are this cluster's driver's.
const mark, owner = "efs.csi.aws.com/cluster", "kubernetes.io/cluster/harbour-x1"

var ours = map[string]string{mark: "true", owner: "owned"}

// A tagsCloud is a cloud with credentials for the driver and for the operator.
type tagsCloud struct {
	*aws.Cloud
	t      *testing.T
	driver *efssdk.Client
	key    iam.Credentials
}

func newTagsCloud(t *testing.T, options aws.Options) *tagsCloud {
	t.Helper()
	c := &tagsCloud{Cloud: aws.Start(t, options), t: t}
	driver := c.AddUser(t, "driver", "elasticfilesystem:*")
	c.driver = efssdk.New(efssdk.Options{Region: c.Region(), BaseEndpoint: sdk.String(c.URL("efs")),
		Credentials: credentials.NewStaticCredentialsProvider(driver.AccessKeyID, driver.SecretAccessKey, "")})
	c.key = c.AddUser(t, "operator", requestedActions(t)...)
	return c
}

// requestedActions are the actions of the operator's CredentialsRequest.
func requestedActions(t *testing.T) (actions []string) {
	t.Helper()
	for _, m := range drivers.OfKind(manifests(t), "CredentialsRequest") {
		if secret, _, _ := unstructured.NestedString(m.Object.Object, "spec", "secretRef", "name"); secret != efs.Driver.CloudAccess.Secret {
			continue
		}
		statements, _, _ := unstructured.NestedSlice(m.Object.Object, "spec", "providerSpec", "statementEntries")
		for _, s := range statements {
			allowed, _, _ := unstructured.NestedStringSlice(s.(map[string]any), "action")
			actions = append(actions, allowed...)
		}
	}
	return actions
}

func (c *tagsCloud) fileSystem() string { return c.EFS.AddFileSystem(fakeefs.FileSystem{}).ID }

// accessPoint makes an access point with tags, and returns the handle of its volume.
func (c *tagsCloud) accessPoint(fileSystem string, tags ...map[string]string) (handle string) {
	c.t.Helper()
	input := &efssdk.CreateAccessPointInput{FileSystemId: &fileSystem, ClientToken: sdk.String(fmt.Sprint(len(c.EFS.AccessPoints())))}
	all := map[string]string{}
	for _, some := range tags {
		maps.Copy(all, some)
	}
	for key, value := range all {
		input.Tags = append(input.Tags, types.Tag{Key: sdk.String(key), Value: sdk.String(value)})
	}
	made, err := c.driver.CreateAccessPoint(c.t.Context(), input)
	require.NoError(c.t, err)
	return fileSystem + "::" + *made.AccessPointId
}

// tags returns the tags of a volume's access point, except for the marks by which it is ours.
func (c *tagsCloud) tags(handle string) map[string]string {
	for _, ap := range c.EFS.AccessPoints() {
		if strings.HasSuffix(handle, ap.ID) {
			maps.DeleteFunc(ap.Tags, func(key, value string) bool { return ours[key] == value })
			return ap.Tags
		}
	}
	return nil
}

func (c *tagsCloud) infrastructure() *configv1.Infrastructure {
	return &configv1.Infrastructure{Status: configv1.InfrastructureStatus{InfrastructureName: "harbour-x1",
		PlatformStatus: &configv1.PlatformStatus{Type: configv1.AWSPlatformType, AWS: &configv1.AWSPlatformStatus{Region: c.Region(),
			ServiceEndpoints: []configv1.AWSServiceEndpoint{{Name: "elasticfilesystem", URL: c.URL("efs")}, {Name: "sts", URL: c.URL("sts")}}}}}}
}

// A passed is a pass that was made.
type passed struct {
	tagged
	err       error
	waits     int
	throttled int // of these
	calls     map[string]int
}

// passOptions are the input of a pass.
type passOptions struct {
	desired
	refused map[string]string
}

// newTestLoop returns a loop with nothing due apart from tags.
func newTestLoop() *loop {
	far := time.Now().Add(24 * time.Hour)
	return &loop{
		Dependencies: controller.Dependencies{Driver: efs.Driver, Clock: clock.RealClock{}, Environment: func() map[string]string { return nil }},
		intervals:    usual, accessPoints: newAccessPoints(), shown: newGauges(), looked: map[string]time.Time{}, count: far, look: far,
	}
}

// setTags makes a pass over the access points of volumes.
func setTags(ctx context.Context, wanted desired, volumes []string, refused map[string]string) (tagged, error) {
	aws, err := connect(wanted.access)
	if err != nil {
		return tagged{}, err
	}
	defer aws.close()
	return newTestLoop().setTags(ctx, &tagger{caller: aws, tags: wanted.tags, refused: refused}, accessPointsOf(volumes))
}

// manifests are the driver's objects.
func manifests(t *testing.T) []drivers.Manifest {
	t.Helper()
	found, err := efs.Driver.Manifests(drivers.Values{Namespace: "ns", Image: func(env string) string { return env }})
	require.NoError(t, err)
	return found
}

// pass makes a pass with the operator's key pair, unless change changes that.
func (c *tagsCloud) pass(tags map[string]string, volumes []string, change ...func(*passOptions)) passed {
	c.t.Helper()
	made := passed{calls: map[string]int{}}
	pass := passOptions{desired: desired{access{Infrastructure: c.infrastructure(), Credentials: keyPair(c.key), CABundle: string(c.CA())}, tags}, refused: map[string]string{}}
	pass.Wait = func(ctx context.Context, throttled bool) error {
		made.waits++
		if throttled {
			made.throttled++
		}
		return ctx.Err()
	}
	for _, f := range change {
		f(&pass)
	}
	before := len(c.Calls())
	made.tagged, made.err = setTags(c.t.Context(), pass.desired, volumes, pass.refused)
	for _, call := range c.Calls()[before:] {
		made.calls[call.Action]++
	}
	return made
}

func keyPair(key iam.Credentials) map[string][]byte {
	return map[string][]byte{"aws_access_key_id": []byte(key.AccessKeyID), "aws_secret_access_key": []byte(key.SecretAccessKey)}
}

// complete fails the test unless a pass was complete and each of its calls waited.
func (p passed) complete(t *testing.T, changed int, calls map[string]int) {
	t.Helper()
	require.NoError(t, p.err)
	assert.Equal(t, changed, p.changed, "changed access points")
	assert.Empty(t, cmp.Diff(calls, p.calls), "calls (-want +got)")
	made := 0
	for action, n := range p.calls {
		if !strings.HasPrefix(action, "AssumeRole") {
			made += n
		}
	}
	assert.Equal(t, made, p.waits, "calls that waited for their turn, want all that were made")
}

// wantLeftOut fails the test unless the sentences about what was left out have the parts, one each.
func (p passed) wantLeftOut(t *testing.T, parts ...string) {
	t.Helper()
	require.Len(t, p.leftOut, len(parts), "left out")
	for i, part := range parts {
		assert.Contains(t, p.leftOut[i], part, "left out")
	}
}

func TestExistingAccessPointsGetTags(t *testing.T) {
	c := newTagsCloud(t, aws.Options{})
	one, other := c.fileSystem(), c.fileSystem()
	wanted := map[string]string{"team": "storage", "cost centre": "a: b"}
	both := map[string]string{"team": "storage", "cost centre": "a: b"}
	lacking := c.accessPoint(one, ours)
	another := c.accessPoint(other, ours, map[string]string{"team": "before", "Name": "website", "removed": "from the cluster"})
	done := c.accessPoint(one, ours, both)
	released := c.accessPoint(one, ours)
	hand := c.accessPoint(one, map[string]string{"team": "finance"})
	foreign := c.accessPoint(one, map[string]string{mark: "true", "kubernetes.io/cluster/quay-y2": "owned"})
	shared := c.accessPoint(one, map[string]string{mark: "true", owner: "shared"})
	unmarked := c.accessPoint(one, map[string]string{owner: "owned"})
	volumes := []string{lacking, another, done, hand, foreign, shared, unmarked,
		one + "::fsap-0123456789abcdef0", "efs:" + lacking, one, one + ":/data", "", "::", "fs-xyz::fsap-1", lacking + "/../" + released, "\n" + released, "s3files:" + released, strings.ToUpper(released)}

	first := c.pass(wanted, volumes)
	first.complete(t, 2, map[string]int{"DescribeAccessPoints": 2, "TagResource": 2})
	first.wantLeftOut(t)
	for handle, want := range map[string]map[string]string{
		lacking: both, done: both,
		another:  {"team": "storage", "cost centre": "a: b", "Name": "website", "removed": "from the cluster"},
		released: {}, hand: {"team": "finance"}, foreign: {"kubernetes.io/cluster/quay-y2": "owned"}, shared: {owner: "shared"}, unmarked: {},
	} {
		assert.Emptyf(t, cmp.Diff(want, c.tags(handle)), "the tags of %s (-want +got)", handle)
	}
	c.pass(wanted, volumes).complete(t, 0, map[string]int{"DescribeAccessPoints": 2})
	c.pass(map[string]string{"team": "storage"}, volumes).complete(t, 0, map[string]int{"DescribeAccessPoints": 2})
	assert.Empty(t, cmp.Diff(both, c.tags(lacking)), "the cluster no longer wants a tag, and the access point has (-want +got)")
}

// TestCallsOfAPass: the number of calls depends on the pages of access points and on how many lack tags, and on nothing
// else.
func TestCallsOfAPass(t *testing.T) {
	c := newTagsCloud(t, aws.Options{})
	fs := c.fileSystem()
	wanted := map[string]string{"team": "storage"}
	var volumes []string
	for i := range 250 {
		tags := wanted
		if i%50 == 7 {
			tags = nil
		}
		volumes = append(volumes, c.accessPoint(fs, ours, tags))
	}
	c.pass(wanted, volumes).complete(t, 5, map[string]int{"DescribeAccessPoints": 3, "TagResource": 5})
	c.pass(wanted, volumes).complete(t, 0, map[string]int{"DescribeAccessPoints": 3})
	c.pass(map[string]string{"team": "other"}, volumes).complete(t, 250, map[string]int{"DescribeAccessPoints": 3, "TagResource": 250})
	c.pass(wanted, []string{"not a handle"}).complete(t, 0, map[string]int{})
}

func TestThrottledPass(t *testing.T) {
	c := newTagsCloud(t, aws.Options{})
	volumes := []string{c.accessPoint(c.fileSystem(), ours)}
	wanted := map[string]string{"team": "storage"}
	c.Inject(gateway.Fault{Kind: gateway.Throttled, Action: "DescribeAccessPoints", Times: 2})
	c.Inject(gateway.Fault{Kind: gateway.Throttled, Action: "TagResource", Times: 3})
	made := c.pass(wanted, volumes)
	made.complete(t, 1, map[string]int{"DescribeAccessPoints": 3, "TagResource": 4})
	assert.Equal(t, 5, made.throttled, "waits after a call that was throttled")

	c.Inject(gateway.Fault{Kind: gateway.Throttled})
	enough := errors.New("enough")
	made = c.pass(map[string]string{"team": "other"}, append(volumes, c.fileSystem()+"::fsap-0123456789abcdef0"), func(p *passOptions) {
		wait, calls := p.Wait, 0
		p.Wait = func(ctx context.Context, throttled bool) error {
			if calls++; calls == 5 {
				return enough
			}
			return wait(ctx, throttled)
		}
	})
	if !errors.Is(made.err, enough) || made.calls["DescribeAccessPoints"] != 4 {
		t.Errorf("the pass ended with %v after the calls %v, want it to end when it may not go on, after 4", made.err, made.calls)
	}
}

// TestRefusedTags: what EFS refuses is found out once, and keeps no other tag from being set.
func TestRefusedTags(t *testing.T) {
	c := newTagsCloud(t, aws.Options{})
	fs := c.fileSystem()
	volumes := []string{c.accessPoint(fs, ours), c.accessPoint(fs, ours)}
	wanted := map[string]string{"a": "1", "b<": "2", "c": "3"}
	refused := map[string]string{}
	remember := func(p *passOptions) { p.refused = refused }
	made := c.pass(wanted, volumes, remember)
	made.complete(t, 2, map[string]int{"DescribeAccessPoints": 1, "TagResource": 1 + 3 + 1})
	made.wantLeftOut(t, `the tag "b<" with the value "2": EFS refuses it (ValidationException: `)
	for _, handle := range volumes {
		assert.Emptyf(t, cmp.Diff(map[string]string{"a": "1", "c": "3"}, c.tags(handle)), "the tags of %s (-want +got)", handle)
	}
	made = c.pass(wanted, volumes, remember)
	made.complete(t, 0, map[string]int{"DescribeAccessPoints": 1})
	made.wantLeftOut(t, `"b<"`)
}

func TestAccessPointsWithTooManyTags(t *testing.T) {
	c := newTagsCloud(t, aws.Options{})
	fs := c.fileSystem()
	others := map[string]string{}
	for i := range 47 {
		others[fmt.Sprint("other-", i)] = "x"
	}
	var volumes []string
	for range 5 {
		volumes = append(volumes, c.accessPoint(fs, ours, others))
	}
	made := c.pass(map[string]string{"a": "1"}, volumes[:1])
	made.complete(t, 1, map[string]int{"DescribeAccessPoints": 1, "TagResource": 1})
	made = c.pass(map[string]string{"a": "1", "b": "2"}, volumes)
	made.complete(t, 0, map[string]int{"DescribeAccessPoints": 1})
	made.wantLeftOut(t, "5 access points such as fsap-")
	c.pass(map[string]string{"a": "2"}, volumes[:1]).complete(t, 1, map[string]int{"DescribeAccessPoints": 1, "TagResource": 1})
}

// TestVolumesOfOtherAccounts: file systems that the account does not have are left out, however many PersistentVolumes
// name some, and nothing keeps the others from getting tags.
func TestVolumesOfOtherAccounts(t *testing.T) {
	c := newTagsCloud(t, aws.Options{})
	volumes := []string{c.accessPoint(c.fileSystem(), ours)}
	for i := range 3 {
		volumes = append(volumes, fmt.Sprintf("fs-%017x::fsap-%017x", i, i))
	}
	made := c.pass(map[string]string{"a": "1"}, volumes)
	made.complete(t, 1, map[string]int{"DescribeAccessPoints": 4, "TagResource": 1})
	made.wantLeftOut(t, "file systems fs-00000000000000000, fs-00000000000000001, fs-00000000000000002 do not get tags")

	for i := range 1100 {
		volumes = append(volumes, fmt.Sprintf("fs-%017x::fsap-%017x", i, i))
	}
	made = c.pass(map[string]string{"a": "1"}, volumes[1:])
	made.complete(t, 0, map[string]int{"DescribeAccessPoints": 1000})
	made.wantLeftOut(t, "PersistentVolumes name 1100 file systems", "1000 file systems such as fs-0")
}

// TestPassThatFails: a fault of one access point does not affect the others, and a fault of all ends the pass soon. Messages say what to do
// and stay the same.
func TestPassThatFails(t *testing.T) {
	c := newTagsCloud(t, aws.Options{})
	fs := c.fileSystem()
	var volumes []string
	for range 20 {
		volumes = append(volumes, c.accessPoint(fs, ours))
	}
	wanted := map[string]string{"a": "1"}
	c.Inject(gateway.Fault{Action: "TagResource", Times: 2, Kind: gateway.Unavailable})
	made := c.pass(wanted, volumes)
	if made.err == nil || made.changed != 18 || !strings.Contains(made.err.Error(), "2 calls to EFS failed, the first one: setting tags of access point fsap-") {
		t.Errorf("%d were changed, error %v; want 18, and that 2 calls failed", made.changed, made.err)
	}
	c.pass(wanted, volumes).complete(t, 2, map[string]int{"DescribeAccessPoints": 1, "TagResource": 2})

	// Every other call fails, and all access points are tried.
	made = c.pass(map[string]string{"b": "1"}, volumes, func(p *passOptions) {
		wait, calls := p.Wait, 0
		p.Wait = func(ctx context.Context, throttled bool) error {
			if calls++; calls%2 == 0 {
				c.Inject(gateway.Fault{Action: "TagResource", Times: 1, Kind: gateway.Unavailable})
			}
			return wait(ctx, throttled)
		}
	})
	if made.err == nil || made.changed != 10 || !strings.Contains(made.err.Error(), "10 calls to EFS failed") {
		t.Errorf("%d were changed, error %v; want 10, and that 10 calls failed", made.changed, made.err)
	}

	wanted["a"] = "2"
	for name, tc := range map[string]struct {
		fault   gateway.Fault
		calls   int
		message []string
	}{
		"denied":      {gateway.Fault{Action: "TagResource", Kind: gateway.Denied}, 5, []string{"AccessDeniedException: User: ", "what CredentialsRequest openshift-aws-efs-csi-driver-tags lists"}},
		"unavailable": {gateway.Fault{Action: "TagResource", Kind: gateway.Unavailable}, 5, []string{"InternalServerError: An error occurred on the server side."}},
		"broken":      {gateway.Fault{Action: "TagResource", Kind: gateway.Broken}, 5, []string{"setting tags of access point fsap-"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer c.Inject(tc.fault)()
			one, again := c.pass(wanted, volumes), c.pass(wanted, volumes)
			if one.err == nil || again.err == nil || one.err.Error() != again.err.Error() {
				t.Fatalf("the errors are %v, then %v; want the same", one.err, again.err)
			}
			assert.Equalf(t, tc.calls, one.calls["TagResource"], "calls of TagResource, of %v", one.calls)
			for _, part := range tc.message {
				assert.ErrorContains(t, one.err, part)
			}
		})
	}
}

// TestEndlessPages: an endpoint that never stops to answer does not keep a pass busy.
func TestEndlessPages(t *testing.T) {
	c := newTagsCloud(t, aws.Options{})
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		fmt.Fprint(w, `{"AccessPoints": [], "NextToken": "more"}`)
	}))
	defer server.Close()
	made := c.pass(map[string]string{"a": "1"}, []string{"fs-01234567::fsap-01234567"}, func(p *passOptions) {
		p.Infrastructure.Status.PlatformStatus.AWS.ServiceEndpoints[0].URL = server.URL
	})
	if made.err == nil || !strings.Contains(made.err.Error(), "more than 1000 pages") || calls != 1000 {
		t.Errorf("error %v after %d calls, want one about 1000 pages", made.err, calls)
	}
}

func TestCredentialsForTags(t *testing.T) {
	const role = "arn:aws:iam::111122223333:role/tags"
	c := newTagsCloud(t, aws.Options{TLS: true, SessionLifetime: time.Second})
	c.driver = efssdk.NewFromConfig(c.Configure(t, c.AddUser(t, "another driver", "elasticfilesystem:*")))
	fs := c.fileSystem()
	var volumes []string
	for range 3 {
		volumes = append(volumes, c.accessPoint(fs, ours))
	}
	// The key set is not from an API server: operator/tagging_cluster_test.go has a real one.
	issuer := newIssuer(t)
	c.IAM.AddIdentityProvider(iam.IdentityProvider{Issuer: issuer.url, Audiences: []string{"openshift"}, KeySet: issuer.keySet})
	account := "system:serviceaccount:openshift-operators:aws-efs-operator"
	require.NoError(t, c.IAM.AddRole(iam.Role{ARN: role, Actions: requestedActions(t), Issuer: issuer.url, Subjects: []string{account}}))
	token := filepath.Join(t.TempDir(), "token")
	write := func(path, content string) {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	secret := filepath.Join(t.TempDir(), "secret")
	write(secret, issuer.token(t, account))
	file := func(format string, values ...any) map[string][]byte {
		return map[string][]byte{"credentials": fmt.Appendf(nil, format, values...)}
	}
	value := 0
	for name, tc := range map[string]struct {
		credentials map[string][]byte
		token       string
		assumed     int // how often the role was
		message     []string
	}{
		"a key pair":                  {credentials: keyPair(c.key)},
		"a key pair in a file":        {credentials: file("[other]\naws_access_key_id = x\n[default]\naws_access_key_id = %s\naws_secret_access_key=%s\n[last]\naws_access_key_id = y\n", c.key.AccessKeyID, c.key.SecretAccessKey)},
		"sessions that end":           {credentials: file("[default]\nsts_regional_endpoints = regional\nrole_arn = %s\nweb_identity_token_file = /nowhere", role), token: issuer.token(t, account), assumed: 4},
		"another service account":     {credentials: file("[default]\nrole_arn = %s", role), token: issuer.token(t, "system:serviceaccount:tenant:default"), message: []string{"the role " + role, "AccessDenied: Not authorized", "docs/start/install.md"}},
		"no token":                    {credentials: file("[default]\nrole_arn = %s", role), message: []string{"the role " + role, "no such file"}},
		"another file than the token": {credentials: file("[default]\nrole_arn = %s\nweb_identity_token_file = %s", role, secret), message: []string{"no such file"}},
		"a program":                   {credentials: file("[default]\ncredential_process = /bin/true"), message: []string{"found no credentials in Secret tags-aws-efs-cloud-credentials"}},
		"half a key pair":             {credentials: map[string][]byte{"aws_access_key_id": []byte("AKIA")}, message: []string{"found no credentials", "aws_secret_access_key"}},
		"nothing":                     {message: []string{"found no credentials"}},
		"a key pair of nobody":        {credentials: file("[default]\naws_access_key_id = AKIA\naws_secret_access_key = x"), message: []string{"UnrecognizedClientException", "Renew the credentials in Secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(token))
			if tc.token != "" {
				write(token, tc.token)
			}
			value++
			c.t = t
			made := c.pass(map[string]string{"value": fmt.Sprint(value)}, volumes, func(p *passOptions) { p.Credentials, p.TokenFile = tc.credentials, token })
			if tc.message == nil {
				want := map[string]int{"DescribeAccessPoints": 1, "TagResource": 3}
				if tc.assumed > 0 {
					want["AssumeRoleWithWebIdentity"] = tc.assumed
				}
				made.complete(t, 3, want)
				return
			}
			if made.err == nil || made.changed > 0 {
				t.Fatalf("%d were changed, error %v; want an error", made.changed, made.err)
			}
			for _, part := range tc.message {
				assert.ErrorContains(t, made.err, part)
			}
		})
	}
	c.t = t
	made := c.pass(map[string]string{"value": "x"}, volumes, func(p *passOptions) { p.CABundle = "" })
	assert.ErrorContains(t, made.err, "certificate", "without the CA of the cloud")
}

// TestExpiredSession: a session that AWS ends early is renewed at once.
func TestExpiredSession(t *testing.T) {
	c := newTagsCloud(t, aws.Options{})
	volumes := []string{c.accessPoint(c.fileSystem(), ours)}
	c.Inject(gateway.Fault{Action: "TagResource", Times: 1, Error: &gateway.Error{Status: http.StatusForbidden, Code: "ExpiredTokenException", Message: "The security token included in the request is expired"}})
	c.pass(map[string]string{"a": "1"}, volumes).complete(t, 1, map[string]int{"DescribeAccessPoints": 1, "TagResource": 2})
	c.Inject(gateway.Fault{Action: "TagResource", Error: &gateway.Error{Status: http.StatusForbidden, Code: "ExpiredTokenException", Message: "The security token included in the request is expired"}})
	if made := c.pass(map[string]string{"a": "2"}, volumes); made.err == nil || made.calls["TagResource"] != 2 || !strings.Contains(made.err.Error(), "Renew the credentials") {
		t.Errorf("calls %v, error %v; want two calls, and what to do", made.calls, made.err)
	}
}

// TestWantedTags: the tags are the ones that EFS allows, whatever the driver's list of tags can hold.
func TestWantedTags(t *testing.T) {
	infrastructure := &configv1.Infrastructure{Status: configv1.InfrastructureStatus{InfrastructureName: "harbour-x1", PlatformStatus: &configv1.PlatformStatus{
		AWS: &configv1.AWSPlatformStatus{ResourceTags: []configv1.AWSResourceTag{{Key: "a: b", Value: "Zoë"}, {Key: "aws:x", Value: "1"}, {Key: mark, Value: "false"}, {Key: owner, Value: "shared"},
			{Key: "c", Value: "<"}, {Key: "d", Value: ""}, {Key: "d", Value: "2"}}}}}}
	assert.Empty(t, cmp.Diff(map[string]string{"a: b": "Zoë", "d": ""}, wantedTags(infrastructure)), "(-want +got)")
	infrastructure.Status.PlatformStatus = nil
	assert.Empty(t, wantedTags(infrastructure), "tags without a platform")
}

// TestPolicyForTags: AWS lets the operator change tags only on access points that the driver created.
func TestPolicyForTags(t *testing.T) {
	var found []string
	for _, m := range drivers.OfKind(manifests(t), "CredentialsRequest") {
		if secret, _, _ := unstructured.NestedString(m.Object.Object, "spec", "secretRef", "name"); secret != efs.Driver.CloudAccess.Secret {
			continue
		}
		found = append(found, m.Object.GetName())
		path, _, _ := unstructured.NestedString(m.Object.Object, "spec", "cloudTokenPath")
		accounts, _, _ := unstructured.NestedStringSlice(m.Object.Object, "spec", "serviceAccountNames")
		if path != efs.Driver.CloudAccess.TokenFile || !slices.Equal(accounts, []string{efs.Driver.Operator.Name}) {
			t.Errorf("the token is at %s, of %q; want it where the operator's pod has its own", path, accounts)
		}
		statements, _, _ := unstructured.NestedSlice(m.Object.Object, "spec", "providerSpec", "statementEntries")
		for _, s := range statements {
			actions, _, _ := unstructured.NestedStringSlice(s.(map[string]any), "action")
			condition, _, _ := unstructured.NestedStringMap(s.(map[string]any), "policyCondition", "StringEquals")
			if slices.Equal(actions, []string{"elasticfilesystem:DescribeAccessPoints", "elasticfilesystem:DescribeMountTargets"}) {
				continue
			}
			if diff := cmp.Diff(map[string]string{"aws:ResourceTag/" + mark: ours[mark]}, condition); diff != "" || !slices.Equal(actions, []string{"elasticfilesystem:TagResource"}) {
				t.Errorf("actions %q under this condition (-want +got):\n%s", actions, diff)
			}
		}
	}
	assert.Len(t, found, 1, "CredentialsRequests for the operator")
}
