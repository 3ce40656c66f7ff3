package operator_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	efssdk "github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/controller"
	efscontroller "github.com/berth-csi/berth/drivers/efs/controller"
	"github.com/berth-csi/berth/lab/aws"
	fakeefs "github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/aws/gateway"
	"github.com/berth-csi/berth/lab/aws/iam"
	"github.com/berth-csi/berth/lab/cluster"
)

// tagsSecret is the Secret with the credentials for tags. tagsActions are the actions that they allow.
const tagsSecret = "tags-aws-efs-cloud-credentials"

var tagsActions = []string{"elasticfilesystem:DescribeAccessPoints", "elasticfilesystem:DescribeMountTargets", "elasticfilesystem:TagResource"}

// A taggingEnv is an environment in a private region of AWS, with endpoints and a CA of its own.
type taggingEnv struct {
	*testEnv
	cloud          *aws.Cloud
	efs            *efssdk.Client
	fileSystem     string
	infrastructure *configv1.Infrastructure
}

// usualIntervals are so long that nothing is due a second time.
var usualIntervals = efscontroller.Intervals{Tags: 6 * time.Hour, Count: time.Hour, Find: 10 * time.Minute}

// newTaggingEnv returns an environment whose operator calls the cloud in quick succession.
func newTaggingEnv(t *testing.T, options aws.Options, intervals efscontroller.Intervals, change ...func(*drivers.Driver)) *taggingEnv {
	t.Helper()
	options.TLS = true
	cloud := aws.Start(t, options)
	driver := efsDriver(t)
	access := *driver.CloudAccess
	driver.CloudAccess = &access
	for _, f := range change {
		f(&driver)
	}
	intervals.Call = time.Millisecond
	env := &taggingEnv{testEnv: newTestEnvWith(t, driver), cloud: cloud, fileSystem: cloud.EFS.AddFileSystem(fakeefs.FileSystem{}).ID}
	env.own = func() controller.Own { return efscontroller.NewAt(intervals) }
	env.efs = efssdk.NewFromConfig(cloud.Config("efs", cloud.AddUser(t, "driver", "elasticfilesystem:*")))
	manualMode(env.testEnv)
	ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.CloudConfigNamespace, Name: drivers.CloudConfigName},
		Data: map[string]string{drivers.CABundleKey: string(cloud.CA())}}
	env.create(ca)
	t.Cleanup(func() {
		assert.NoError(t, env.Client().Delete(context.Background(), ca))
	})
	env.infrastructure = &configv1.Infrastructure{ObjectMeta: singleton}
	during(env.testEnv, env.infrastructure, func(i *configv1.Infrastructure) {
		i.Status.PlatformStatus.AWS.ServiceEndpoints = []configv1.AWSServiceEndpoint{{Name: "elasticfilesystem", URL: cloud.URL("efs")}, {Name: "sts", URL: cloud.URL("sts")}}
	})
	return env
}

// keyPair creates a Secret with a key pair of the cloud, as an administrator does.
func (env *taggingEnv) keyPair() *corev1.Secret {
	key := env.cloud.AddUser(env.t, "operator", tagsActions...)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: tagsSecret},
		StringData: map[string]string{"aws_access_key_id": key.AccessKeyID, "aws_secret_access_key": key.SecretAccessKey}}
	env.create(secret)
	return secret
}

// tag makes the cluster want tags: keys and values, alternating.
func (env *taggingEnv) tag(pairs ...string) {
	env.t.Helper()
	change(env.testEnv, env.infrastructure, func(i *configv1.Infrastructure) {
		i.Status.PlatformStatus.AWS.ResourceTags = nil
		for p := 0; p < len(pairs); p += 2 {
			i.Status.PlatformStatus.AWS.ResourceTags = append(i.Status.PlatformStatus.AWS.ResourceTags, configv1.AWSResourceTag{Key: pairs[p], Value: pairs[p+1]})
		}
	})
}

// ownTags are the tags of an access point that the driver of a cluster has created.
func ownTags(infrastructure string) map[string]string {
	return map[string]string{"efs.csi.aws.com/cluster": "true", "kubernetes.io/cluster/" + infrastructure: "owned"}
}

// accessPoint makes an access point with tags and its volume, and returns its ID.
func (env *taggingEnv) accessPoint(tags map[string]string) (id string) {
	env.t.Helper()
	input := &efssdk.CreateAccessPointInput{FileSystemId: &env.fileSystem, ClientToken: sdk.String(fmt.Sprint(len(env.cloud.EFS.AccessPoints())))}
	for key, value := range tags {
		input.Tags = append(input.Tags, types.Tag{Key: sdk.String(key), Value: sdk.String(value)})
	}
	made, err := env.efs.CreateAccessPoint(env.t.Context(), input)
	require.NoError(env.t, err)
	env.volume(env.fileSystem + "::" + *made.AccessPointId)
	return *made.AccessPointId
}

func (env *taggingEnv) volume(handle string) {
	env.t.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: env.namespace + "-"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: env.driver.CSIName, VolumeHandle: handle}},
		},
	}
	env.create(volume)
	env.t.Cleanup(func() { env.removeVolume(volume) })
}

// waitForTags waits until an access point has tags in addition to the driver's mark.
func (env *taggingEnv) waitForTags(id string, pairs ...string) {
	env.t.Helper()
	want := map[string]string{}
	for p := 0; p < len(pairs); p += 2 {
		want[pairs[p]] = pairs[p+1]
	}
	cluster.Eventually(env.t, limit, fmt.Sprintf("access point %s to have the tags %v", id, want), func(context.Context) error {
		for _, ap := range env.cloud.EFS.AccessPoints() {
			if ap.ID != id {
				continue
			}
			maps.DeleteFunc(ap.Tags, func(key, _ string) bool { return strings.Contains(key, "/cluster") })
			if diff := cmp.Diff(want, ap.Tags); diff != "" {
				return fmt.Errorf("-want +got:\n%s", diff)
			}
		}
		return nil
	})
}

// calls returns how often the operator has made each call.
func (env *taggingEnv) calls() map[string]int {
	made := map[string]int{}
	for _, call := range env.cloud.Calls() {
		if !strings.HasSuffix(call.Principal, "/driver") {
			made[call.Action]++
		}
	}
	return made
}

// waitForPass waits until a pass is complete.
func (env *taggingEnv) waitForPass() {
	env.t.Helper()
	env.waitForReason("AWSEFSTagsSet", "AsExpected")
}

// wantCalls fails the test unless the operator has made exactly these calls.
func (env *taggingEnv) wantCalls(when string, want map[string]int) {
	env.t.Helper()
	assert.Emptyf(env.t, cmp.Diff(want, env.calls()), "%s, the operator has made other calls (-want +got)", when)
}

// TestTagsReachExistingAccessPoints: later changes of the cluster's tags reach the access points that the driver has created
// for this cluster, with one call for each that lacks a tag. Nothing is called without a reason.
func TestTagsReachExistingAccessPoints(t *testing.T) {
	t.Parallel()
	env := newTaggingEnv(t, aws.Options{}, usualIntervals)
	secret := env.keyPair()
	one, other := env.accessPoint(ownTags(cluster.InfrastructureName)), env.accessPoint(ownTags(cluster.InfrastructureName))
	foreign := env.accessPoint(ownTags("harbour-x1"))
	for _, handle := range []string{"", "fs-0123456789abcdef0::" + one, env.fileSystem, "::" + one, strings.Repeat("fs-", 5000)} {
		if handle != "" { // the API server refuses that
			env.volume(handle)
		}
	}
	env.create(env.customResource())
	stop := env.startOperator()
	env.waitForConditions(allWell)
	env.waitForPass()
	env.wantCalls("while the cluster wants no tags", map[string]int{})

	env.tag("team", "storage", "cost centre", "a: b")
	env.waitForTags(one, "team", "storage", "cost centre", "a: b")
	env.waitForTags(other, "team", "storage", "cost centre", "a: b")
	env.waitForEvent("TagsSet", "2 access points")
	env.waitForEvent("TagsLeftOut", "fs-0123456789abcdef0")
	// The driver's settings leave a tag out, too, and may have said so before.
	cluster.Eventually(t, limit, "the condition to name the file system that does not exist", func(context.Context) error {
		left := condition(env.waitForConditions(allWell), "AWSEFSDriverSettingsApplied")
		if left.Reason != "LeftOut" || !strings.Contains(left.Message, "file system fs-0123456789abcdef0 do not get tags") {
			return fmt.Errorf("it is %s: %q", left.Reason, left.Message)
		}
		return nil
	})
	env.waitForPass()
	env.wantCalls("when all have their tags", map[string]int{"DescribeAccessPoints": 2, "TagResource": 2})

	// What a pass does not depend on does not begin one. The next change shows that.
	change(env.testEnv, secret, func(s *corev1.Secret) { s.Labels = map[string]string{"seen": "true"} })
	change(env.testEnv, env.infrastructure, func(i *configv1.Infrastructure) { i.Status.ControlPlaneTopology = configv1.SingleReplicaTopologyMode })
	env.tag("team", "other")
	env.waitForTags(one, "team", "other", "cost centre", "a: b")
	env.waitForTags(other, "team", "other", "cost centre", "a: b")
	env.waitForTags(foreign)
	env.waitForPass()
	env.wantCalls("after one change", map[string]int{"DescribeAccessPoints": 4, "TagResource": 4})

	stop()
	stop = env.startOperator()
	cluster.Eventually(t, limit, "the next operator to compare the tags", func(context.Context) error {
		if got := env.calls()["DescribeAccessPoints"]; got != 6 {
			return fmt.Errorf("there are %d calls, want 6", got)
		}
		return nil
	})
	env.tag()
	env.waitForReason("AWSEFSDriverSettingsApplied", "AsExpected")
	stop()
	env.wantCalls("after a restart", map[string]int{"DescribeAccessPoints": 6, "TagResource": 4})
}

// TestTagsWithShortLivedCredentials: the operator assumes a role with the token of its own service account, which the API
// server has signed, and again whenever the session ends.
func TestTagsWithShortLivedCredentials(t *testing.T) {
	t.Parallel()
	const role = "arn:aws:iam::111122223333:role/tags"
	token := filepath.Join(t.TempDir(), "token")
	env := newTaggingEnv(t, aws.Options{SessionLifetime: time.Second}, usualIntervals, func(d *drivers.Driver) { d.CloudAccess.TokenFile = token })
	env.variables.Store("TAGS_ROLEARN", role)
	kube := kubernetes.NewForConfigOrDie(env.Config())
	account := "system:serviceaccount:" + env.namespace + ":operator"
	env.cloud.IAM.AddIdentityProvider(iam.IdentityProvider{Issuer: "https://kubernetes.default.svc", Audiences: []string{"openshift"}, KeySet: func() ([]byte, error) {
		return kube.RESTClient().Get().AbsPath("/openid/v1/jwks").DoRaw(context.Background())
	}})
	trust := func(account string) {
		require.NoError(t, env.cloud.IAM.AddRole(iam.Role{ARN: role, Actions: tagsActions, Issuer: "https://kubernetes.default.svc", Subjects: []string{account}}))
	}
	trust("system:serviceaccount:tenant:default")
	id := env.accessPoint(ownTags(cluster.InfrastructureName))
	env.accessPoint(ownTags(cluster.InfrastructureName))
	env.create(env.customResource())
	env.startOperator() // which creates the account
	signed, err := kube.CoreV1().ServiceAccounts(env.namespace).CreateToken(t.Context(), "operator",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"openshift"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(token, []byte(signed.Status.Token), 0o600))

	env.tag("team", "storage")
	env.waitForReason("AWSEFSTagsSet", "Failing")
	custom := env.waitForConditions(allWell)
	for _, part := range []string{"the role " + role + " in Secret " + tagsSecret + " cannot be assumed: AccessDenied", "docs/start/install.md"} {
		assert.Contains(t, condition(custom, "AWSEFSTagsSet").Message, part, "condition AWSEFSTagsSet says")
	}
	trust(account)
	env.tag("team", "other") // or else the next attempt is in a minute
	env.waitForTags(id, "team", "other")
	env.waitForPass()
	assert.GreaterOrEqual(t, env.calls()["AssumeRoleWithWebIdentity"], 1+3, "the role is assumed once when refused, and for each of three calls with sessions that end")
}

// TestTroubleWithTags: it is reported at once, and makes the driver Degraded only when it lasts.
func TestTroubleWithTags(t *testing.T) {
	t.Parallel()
	env := newTaggingEnv(t, aws.Options{}, usualIntervals)
	clock := clocktesting.NewFakeClock(time.Now())
	env.clock = clock
	id := env.accessPoint(ownTags(cluster.InfrastructureName))
	env.tag("team", "storage")
	env.create(env.customResource())
	env.startOperator()
	custom := env.waitForConditions(allWell)
	env.waitForReason("AWSEFSTagsSet", "NoCredentials")
	assert.Contains(t, condition(custom, "AWSEFSTagsSet").Message, "TAGS_ROLEARN", "condition AWSEFSTagsSet")

	repair := env.cloud.Inject(gateway.Fault{Service: "elasticfilesystem", Action: "TagResource", Kind: gateway.Denied})
	secret := env.keyPair()
	touches := 0
	// step lets the operator's clock advance, and has the controller look at it.
	step := func(d time.Duration) {
		clock.Step(d)
		touches++
		change(env.testEnv, secret, func(s *corev1.Secret) { s.Labels = map[string]string{"touched": fmt.Sprint(touches)} })
	}
	await := func(conditionType string, status operatorv1.ConditionStatus, d time.Duration) *operatorv1.ClusterCSIDriver {
		t.Helper()
		custom := env.customResource()
		cluster.Eventually(t, limit, fmt.Sprintf("condition %s to be %s", conditionType, status), func(ctx context.Context) error {
			step(d)
			if err := env.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
				return err
			}
			if got := condition(custom, conditionType); got.Status != status {
				return fmt.Errorf("it is %s (%s: %s)", got.Status, got.Reason, got.Message)
			}
			return nil
		})
		return custom
	}
	await("AWSEFSTagsSet", operatorv1.ConditionFalse, time.Second)
	custom = env.waitForConditions(allWell)
	if got := condition(custom, "AWSEFSTagsSet"); got.Reason != "Failing" || !strings.Contains(got.Message, "what CredentialsRequest openshift-aws-efs-csi-driver-tags lists") {
		t.Errorf("condition = %s: %s; want Failing, and what to do", got.Reason, got.Message)
	}
	env.waitForEvent("TagsFailing", "AccessDeniedException")

	custom = await("Degraded", operatorv1.ConditionTrue, time.Hour)
	if got := condition(custom, "AWSEFSOperatorDegraded"); got.Reason != "TagsNotSet" || !strings.Contains(got.Message, "volumes work all the same") {
		t.Errorf("condition = %s: %s; want TagsNotSet, and that volumes work", got.Reason, got.Message)
	}
	if clock.Since(condition(custom, "AWSEFSTagsSet").LastTransitionTime.Time) < 8*time.Hour {
		t.Error("the driver is Degraded within eight hours")
	}
	repair()
	await("Degraded", operatorv1.ConditionFalse, time.Hour)
	env.waitForTags(id, "team", "storage")
	env.waitForConditions(allWell)
}

// TestDriverDoesWithoutCredentialsForTags: nobody provides them, and the driver is Available.
func TestDriverDoesWithoutCredentialsForTags(t *testing.T) {
	t.Parallel()
	driver := efsDriver(t)
	const asset = "tags/credentialsrequest.yaml"
	files := fstest.MapFS{}
	manifests, err := driver.Manifests(drivers.Values{Namespace: "${NAMESPACE}", Image: func(env string) string { return "${" + env + "}" }})
	require.NoError(t, err)
	for _, m := range manifests {
		files[m.File] = &fstest.MapFile{Data: m.YAML}
	}
	unserved := strings.Replace(string(files[asset].Data), "kind: AWSProviderSpec", "kind: OtherProviderSpec", 1)
	files[asset] = &fstest.MapFile{Data: []byte(unserved)}
	driver.Assets = files
	env := newTestEnvWith(t, driver)
	custom := env.installDriver()
	if got := condition(custom, "AWSEFSTagsSet"); got.Status != operatorv1.ConditionTrue || !strings.Contains(got.Message, "waiting for the cloud credential operator") {
		t.Errorf("condition = %s (%s: %s); want True, and that they are not there yet", got.Status, got.Reason, got.Message)
	}
}
