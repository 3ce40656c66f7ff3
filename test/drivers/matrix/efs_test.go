package matrix

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driver "github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/aws/iam"
	"github.com/berth-csi/berth/lab/aws/metadata"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/nfs"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/drivers/accounts"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/mustgather"
	"github.com/berth-csi/berth/test/page"
)

// efsVersion is a version of the driver.
type efsVersion struct {
	// env are the variables of its operator.
	env []corev1.EnvVar
	// tags are some that it can say.
	tags []configv1.AWSResourceTag
	// handle is the prefix of its volume handles.
	handle string
	// behindProxy says that only a proxy reaches the region.
	behindProxy bool
	// unexercised says why it needs no use of some permissions.
	unexercised map[string]string
}

var (
	efsDefault = efsVersion{
		tags: []configv1.AWSResourceTag{{Key: "team", Value: "harbour"}},
		unexercised: map[string]string{
			"efs-csi-provisioner: read csinodes.storage.k8s.io":  "only version 3 of the driver names zones",
			"efs-csi-provisioner: read nodes":                    "only version 3 of the driver names zones",
			"efs-csi-provisioner: update persistentvolumeclaims": "only with zones, the provisioner looks for the selected node",
		},
	}
	efsNewer = efsVersion{
		env: []corev1.EnvVar{
			{Name: "DRIVER_IMAGE", Value: "public.ecr.aws/efs-csi-driver/amazon/aws-efs-csi-driver:v3.4.1"},
			{Name: "DRIVER_VERSION", Value: "3.4.1"},
		},
		tags:   []configv1.AWSResourceTag{{Key: "team", Value: "harbour"}, {Key: "path:a", Value: "b c"}},
		handle: "efs:", // the type of the file system, since version 3
	}
)

const (
	efsFileSystem = "fs-0123456789abcdef0"
	// financeFileSystem belongs to another account.
	financeFileSystem = "fs-0fedcba9876543210"
	efsClass          = "efs-dynamic"
	efsRegion         = "sea-west-1" // which has endpoints and a CA of its own
)

// efsBed is a testbed with the EFS driver and a file system.
type efsBed struct {
	*testbed.Testbed
	region *testbed.AWS
	files  *testbed.FileSystems
}

// startEFS starts a testbed, with a StorageClass that makes an access point for each claim.
func startEFS(t *testing.T, version efsVersion, region *testbed.AWS, env ...corev1.EnvVar) efsBed {
	t.Helper()
	region.Tags = version.tags
	files := testbed.AddFileSystems(t, region, efs.FileSystem{ID: efsFileSystem}, efs.FileSystem{ID: financeFileSystem, Owner: "210987654321"})
	cloud := region.Options()
	files.Serve(&cloud)
	options := testbed.Options{Driver: driver.Driver, Cloud: cloud, Env: append(env, version.env...)}
	if version.behindProxy {
		options.BehindProxy = testbed.EndpointPort
	}
	bed := efsBed{testbed.Start(t, options), region, files}
	bed.addClass(t, efsClass, storagev1.VolumeBindingImmediate)
	return bed
}

func (b efsBed) addClass(t *testing.T, name string, mode storagev1.VolumeBindingMode) {
	t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driver.Driver.CSIName, VolumeBindingMode: &mode,
		Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": efsFileSystem, "directoryPerms": "700", "basePath": "/claims"},
	}
	require.NoError(t, b.Client().Create(t.Context(), class))
}

// accessPoint returns the only access point in the cloud.
func (b efsBed) accessPoint(t *testing.T) efs.AccessPoint {
	t.Helper()
	points := b.region.EFS.AccessPoints()
	require.Len(t, points, 1, "the cloud has the access points")
	return points[0]
}

// share runs a pod on each node, and makes each read the other one's file.
func (b efsBed) share(t *testing.T, claim *corev1.PersistentVolumeClaim) []client.Object {
	t.Helper()
	first := b.Run(t, testbed.Pod{Name: "first", Node: testbed.Nodes[0], Claim: claim})
	second := b.Run(t, testbed.Pod{Name: "second", Node: testbed.Nodes[1], Claim: claim})
	first.Write(t, "greeting", "ahoy")
	assert.Equalf(t, "ahoy", second.Read(t, "greeting"), "the pod on node %s reads", testbed.Nodes[1])
	second.Write(t, "answer", "aye")
	assert.Equalf(t, "aye", first.Read(t, "answer"), "the pod on node %s reads", testbed.Nodes[0])
	return []client.Object{first.Pod, second.Pod}
}

// checkTunnels checks that the mounts went through mount.efs and its tunnels, which name the access point.
func (b efsBed) checkTunnels(t *testing.T) {
	t.Helper()
	point := b.accessPoint(t)
	want := nfs.Request{
		Path: "/", Version: "4.1", Host: efsFileSystem + ".efs." + efsRegion + ".amazonaws.com",
		FileSystem: efsFileSystem, AccessPoint: point.ID,
	}
	for _, got := range b.files.NFS.Requests() {
		assert.Equal(t, want, got, "a mount")
	}
}

// checkMountLogs: support gets the logs of mount.efs, which are files of the driver's pods.
func (b efsBed) checkMountLogs(t *testing.T) {
	t.Helper()
	folder, _ := mustgather.Run(t, b.Cluster, driver.Driver.CSIName+"/"+b.DriverNamespace())
	var logs []string
	for name, content := range mustgather.Files(t, folder) {
		if strings.Contains(name, "/pods/efs-csi-node-") && strings.HasSuffix(name, "/efs-plugin.mounts.log") {
			logs = append(logs, content)
		}
	}
	if all := strings.Join(logs, "\n"); len(logs) != 2 || !strings.Contains(all, "==> /var/log/amazon/efs/mount.log <==") || !strings.Contains(all, "Successfully mounted "+efsFileSystem) {
		t.Errorf("of mount.efs, must-gather has %q, want the logs of two nodes, with the mount of %s", logs, efsFileSystem)
	}
}

// called returns the principals whose calls of an action succeeded.
func (b efsBed) called(action string) (principals []string) {
	for _, call := range b.region.Calls() {
		if call.Action == action && call.Error == "" {
			principals = append(principals, call.Principal)
		}
	}
	return principals
}

// testEFS runs a version of the driver, with a key pair and then with tokens.
func testEFS(t *testing.T, version efsVersion) {
	bed := startEFS(t, version, testbed.StartAWS(t, driver.Driver, aws.Options{Region: efsRegion}))
	claim := bed.Claim(t, testbed.Claim{Namespace: bed.Namespace(t), Name: "files", Class: efsClass})
	t.Run("provision", func(t *testing.T) {
		volume := bed.Bound(t, claim)
		point := bed.accessPoint(t)
		assert.Equal(t, version.handle+efsFileSystem+"::"+point.ID, volume.Spec.CSI.VolumeHandle, "the volume")
		if point.FileSystemID != efsFileSystem || !strings.HasPrefix(point.RootDirectory.Path, "/claims/") || point.PosixUser == nil {
			t.Errorf("the cloud has %+v", point)
		}
	})
	t.Run("tags", func(t *testing.T) {
		want := map[string]string{"efs.csi.aws.com/cluster": "true", "kubernetes.io/cluster/" + cluster.InfrastructureName: "owned"}
		for _, tag := range version.tags {
			want[tag.Key] = tag.Value
		}
		assert.Empty(t, cmp.Diff(want, bed.accessPoint(t).Tags), "tags of the access point (-want +got)")
	})
	t.Run("private_endpoint", func(t *testing.T) {
		// No other way leads to the cloud than its endpoints, whose certificates only its own CA has signed.
		if got := bed.called("CreateAccessPoint"); len(got) != 1 || !strings.HasSuffix(got[0], ":user/openshift-aws-efs-csi-driver") {
			t.Errorf("access points were created by %q, want once, by the user of the CredentialsRequest", got)
		}
	})
	var users []client.Object
	t.Run("publish", func(t *testing.T) {
		users = bed.share(t, claim)
		bed.checkTunnels(t)
		bed.checkMountLogs(t)
	})
	t.Run("SharedVolume", func(t *testing.T) { bed.testSharedVolume(t, claim) })
	t.Run("delete", func(t *testing.T) {
		folder := bed.files.Folder(efsFileSystem) + bed.accessPoint(t).RootDirectory.Path
		_, err := os.Stat(folder)
		assert.NoError(t, err, "before the claim is deleted")
		volume := bed.Bound(t, claim)
		bed.Delete(t, append(users, claim)...)
		cluster.Eventually(t, testbed.Limit, "the volume to be gone", bed.Gone(volume))
		assert.Empty(t, bed.region.EFS.AccessPoints(), "the cloud still has the access points")
		_, err = os.Stat(folder)
		assert.Truef(t, os.IsNotExist(err), "the file system still has the claim's files; error %v", err)
	})
	t.Run("first_consumer", bed.testFirstConsumer)
	t.Run("without_metadata", bed.testWithoutMetadata)
	t.Run("metrics", bed.CheckMetrics)
	t.Run("restarts", bed.CheckNoRestarts)
	t.Run("permissions", func(t *testing.T) {
		accounts.Check(t, bed.Cluster, driver.Driver, bed.DriverNamespace(), version.unexercised)
	})
	if !*all {
		return
	}
	t.Run("cross_account", bed.testCrossAccount)
	t.Run("STS", func(t *testing.T) { testEFSWithTokens(t, version) })
	t.Run("changed_secret", bed.testChangedSecret)
}

// testCrossAccount uses a file system of another account, as the documentation says. Only a role of that account sees it.
func (b efsBed) testCrossAccount(t *testing.T) {
	const role = "arn:aws:iam::210987654321:role/efs-of-finance"
	user := &corev1.Secret{}
	require.NoError(t, b.Client().Get(t.Context(), client.ObjectKey{Namespace: b.DriverNamespace(), Name: driver.Driver.Secrets[0]}, user))
	if err := errors.Join(
		b.region.IAM.Allow(string(user.Data["aws_access_key_id"]), "sts:AssumeRole"),
		b.region.IAM.AddRole(iam.Role{ARN: role, Actions: []string{"elasticfilesystem:*"}, Trusted: []string{"arn:aws:iam::111122223333:user/openshift-aws-efs-csi-driver"}}),
	); err != nil {
		t.Fatal(err)
	}
	documented := page.Objects(t, "../../../docs/operate/cross-account.md", strings.NewReplacer("fs-0123456789abcdef0", financeFileSystem, "openshift-cluster-csi-drivers", b.DriverNamespace()))
	for _, kind := range []string{"Namespace", "Secret", "Role", "RoleBinding", "StorageClass"} {
		require.NoError(t, b.Client().Create(t.Context(), documented[kind]))
	}
	before := len(b.region.Calls())
	claim := b.Claim(t, testbed.Claim{Namespace: b.Namespace(t), Name: "finance", Class: documented["StorageClass"].GetName()})
	volume := b.Bound(t, claim)
	point := b.accessPoint(t)
	assert.Equalf(t, financeFileSystem, point.FileSystemID, "the access point is %+v", point)
	b.Delete(t, append(b.share(t, claim), claim)...)
	cluster.Eventually(t, testbed.Limit, "the volume to be gone", b.Gone(volume))
	assert.Empty(t, b.region.EFS.AccessPoints(), "the cloud still has the access points")
	for _, call := range b.region.Calls()[before:] {
		changes := call.Action == "CreateAccessPoint" || call.Action == "DeleteAccessPoint"
		if changes && !strings.HasPrefix(call.Principal, "arn:aws:sts::210987654321:assumed-role/efs-of-finance/") {
			t.Errorf("%s was called by %s, want a session of %s", call.Action, call.Principal, role)
		}
	}
}

// testFirstConsumer makes the volume of a claim when the claim's first pod is scheduled. The node that the scheduler selected
// before is gone: the provisioner gives the claim back to it.
func (b efsBed) testFirstConsumer(t *testing.T) {
	const class = "efs-first-consumer"
	b.addClass(t, class, storagev1.VolumeBindingWaitForFirstConsumer)
	claim := b.Claim(t, testbed.Claim{Namespace: b.Namespace(t), Name: "later", Class: class})
	gone := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":"gone"}}}`))
	require.NoError(t, b.Client().Patch(t.Context(), claim, gone))
	pod := b.Run(t, testbed.Pod{Name: "first", Node: testbed.Nodes[0], Claim: claim})
	volume := b.Bound(t, claim)
	b.Delete(t, pod.Pod, claim)
	cluster.Eventually(t, testbed.Limit, "the volume to be gone", b.Gone(volume))
}

// testWithoutMetadata restarts the driver while no metadata service answers. Its pods read their Nodes instead, and it
// registers as before.
func (b efsBed) testWithoutMetadata(t *testing.T) {
	for _, service := range b.region.Metadata {
		service.SetState(metadata.Disabled)
		defer service.SetState(metadata.Up)
	}
	before := b.registered(t)
	b.KillDriver(t)
	assert.Empty(t, cmp.Diff(before, b.registered(t)), "without metadata, the driver registers differently (-before +after)")
}

// testChangedSecret puts a program into the Secret with the credentials of the privileged pods, while they run and then before they start. The
// file that the AWS SDK reads in them names no program, although the kubelet has updated the Secret's own file there. Administrators manage
// the Secret: otherwise the cloud credential operator would restore it.
func (b efsBed) testChangedSecret(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver.Driver.CSIName}}
	manage := func(state operatorv1.ManagementState) {
		t.Helper()
		require.NoError(t, b.Client().Patch(t.Context(), custom, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"managementState":%q}}`, state))))
	}
	mode := fmt.Appendf(nil, `{"spec":{"credentialsMode":%q}}`, operatorv1.CloudCredentialsModeManual)
	require.NoError(t, b.Client().Patch(t.Context(), &operatorv1.CloudCredential{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}, client.RawPatch(types.MergePatchType, mode)))
	// Otherwise the operator replaces the pods as soon as the Secret changes.
	manage(operatorv1.Unmanaged)
	cluster.Eventually(t, testbed.Limit, "the operator to leave the driver alone", func(ctx context.Context) error {
		if err := b.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		if !slices.ContainsFunc(custom.Status.Conditions, func(c operatorv1.OperatorCondition) bool { return c.Reason == "Unmanaged" }) {
			return fmt.Errorf("its conditions are %+v", custom.Status.Conditions)
		}
		return nil
	})
	b.AwaitReady(t)
	secret := &corev1.Secret{}
	require.NoError(t, b.Client().Get(t.Context(), client.ObjectKey{Namespace: b.DriverNamespace(), Name: driver.Driver.Secrets[1]}, secret))
	before, pods := secret.Data["credentials"], b.DriverPods(t)
	write := func(credentials []byte) {
		t.Helper()
		require.NoError(t, b.Client().Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"credentials":%q}}`, base64.StdEncoding.EncodeToString(credentials)))))
	}
	evil := []byte("[default]\ncredential_process = touch " + started + "\n")
	write(evil)
	b.mustStartNothing(t, pods, evil, started)
	manage(operatorv1.Managed)
	b.AwaitReplaced(t, nodePods(pods))
	b.mustStartNothing(t, b.DriverPods(t), evil, started)

	pods = b.DriverPods(t)
	write(before)
	b.AwaitReplaced(t, nodePods(pods))
	claim := b.Claim(t, testbed.Claim{Namespace: b.Namespace(t), Name: "after", Class: efsClass})
	user := b.Run(t, testbed.Pod{Name: "after", Node: testbed.Nodes[0], Claim: claim})
	b.Delete(t, user.Pod, claim)
}

// nodePods returns the pods of the DaemonSet.
func nodePods(all []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(all), func(pod corev1.Pod) bool { return !strings.HasPrefix(pod.Name, "efs-csi-node-") })
}

// mustStartNothing waits until the Secret's file in each node pod has some credentials, and makes the AWS SDK read the files of the pod.
func (b efsBed) mustStartNothing(t *testing.T, pods []corev1.Pod, credentials []byte, started string) {
	t.Helper()
	pods = nodePods(pods)
	require.Lenf(t, pods, len(testbed.Nodes), "there are %d node pods, want one on each node", len(pods))
	for _, pod := range pods {
		process, err := b.ContainerProcess(&pod, "efs-plugin")
		require.NoError(t, err)
		cluster.Eventually(t, testbed.Limit, "the kubelet to update the Secret in pod "+pod.Name, func(context.Context) error {
			found, err := os.ReadFile(filepath.Join(process, "root/var/run/aws-secret/credentials"))
			if err == nil && !bytes.Equal(found, credentials) {
				err = fmt.Errorf("it is %q", found)
			}
			return err
		})
		readCredentials(t, filepath.Join(process, "root/var/run/aws/credentials"))
		_, err = os.Stat(started)
		assert.Errorf(t, err, "in pod %s, the SDK starts the program of the Secret", pod.Name)
		readCredentials(t, filepath.Join(process, "root/var/run/aws-secret/credentials"))
		require.NoError(t, os.Remove(started), "the SDK does not start the program of the Secret itself: the test proves nothing")
	}
}

// readCredentials makes the AWS SDK read credentials from a file of a driver's pod, as the driver does.
func readCredentials(t *testing.T, file string) {
	t.Helper()
	_, err := os.Stat(file)
	require.NoError(t, err)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	loaded, err := config.LoadDefaultConfig(t.Context(), config.WithRegion(efsRegion))
	require.NoError(t, err)
	_, _ = loaded.Credentials.Retrieve(t.Context()) // there may be none: only what it starts counts
}

// registered returns the driver's registration on each node.
func (b efsBed) registered(t *testing.T) (all []storagev1.CSINodeDriver) {
	t.Helper()
	for _, node := range testbed.Nodes {
		found := &storagev1.CSINode{}
		require.NoError(t, b.Client().Get(t.Context(), client.ObjectKey{Name: node}, found))
		all = append(all, found.Spec.Drivers...)
	}
	return all
}

// testEFSWithTokens runs the driver without any key pair, behind a proxy.
func testEFSWithTokens(t *testing.T, version efsVersion) {
	version.behindProxy = true
	region := testbed.StartAWS(t, driver.Driver, aws.Options{Region: efsRegion})
	roles := region.UseTokens()
	bed := startEFS(t, version, region,
		corev1.EnvVar{Name: "ROLEARN", Value: roles["openshift-aws-efs-csi-driver"]},
		corev1.EnvVar{Name: "NODE_ROLEARN", Value: roles["openshift-aws-efs-csi-driver-node"]})
	claim := bed.Claim(t, testbed.Claim{Namespace: bed.Namespace(t), Name: "files", Class: efsClass})
	volume := bed.Bound(t, claim)
	bed.Delete(t, append(bed.share(t, claim), claim)...)
	cluster.Eventually(t, testbed.Limit, "the volume to be gone", bed.Gone(volume))
	for _, action := range []string{"CreateAccessPoint", "DeleteAccessPoint"} {
		principals := bed.called(action)
		assert.NotEmptyf(t, principals, "nobody called %s", action)
		for _, principal := range principals {
			assert.Containsf(t, principal, ":assumed-role/openshift-aws-efs-csi-driver/", "%s was called by", action)
		}
	}
}

// testSharedVolume lets another namespace use the access point of a claim, by a grant. Its pods see the claim's files.
func (b efsBed) testSharedVolume(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	namespace, point := b.Namespace(t), b.accessPoint(t)
	shared := &sharedvolume.SharedVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "website"},
		Spec:       sharedvolume.SharedVolumeSpec{FileSystemID: point.FileSystemID, AccessPointID: point.ID},
	}
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Limit)
	defer cancel()
	require.NoError(t, journey.Grant(ctx, b.Client(), namespace, point.FileSystemID, sharedvolume.AllAccessPoints))
	mistyped := shared.DeepCopy()
	mistyped.Name, mistyped.Spec.AccessPointID = "mistyped", "fsap-0fedcba9876543210"
	claimOf := func(volume *sharedvolume.SharedVolume) *corev1.PersistentVolumeClaim {
		name, err := journey.Share(ctx, b.Client(), volume)
		require.NoError(t, err)
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	hanging := b.Create(t, testbed.Pod{Name: "hanging", Node: testbed.Nodes[1], Claim: claimOf(mistyped)})
	b.awaitAvailable(t, mistyped, "AccessPointNotFound")
	theirs := claimOf(shared)
	b.awaitAvailable(t, shared, "Found")
	pods := b.share(t, theirs)
	owner := b.Run(t, testbed.Pod{Name: "owner", Node: testbed.Nodes[0], Claim: claim})
	assert.EqualValues(t, "aye", owner.Read(t, "answer"), "the owner of the claim reads")
	b.mustExplain(t, hanging)
	b.Delete(t, append(pods, owner.Pod, hanging, shared, mistyped)...)
	_, err := os.Stat(b.files.Folder(efsFileSystem) + point.RootDirectory.Path + "/answer")
	assert.NoError(t, err, "after the SharedVolume was deleted, its files are gone, too")
}

// mustExplain fails the test unless the commands of the page about trouble print why a pod hangs: the driver on its node logs that EFS
// has refused the pod's access point.
func (b efsBed) mustExplain(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	const refused = "access denied by server"
	b.AwaitEvent(t, pod, "FailedMount", refused)
	log := b.Follow(t, "../../../docs/operate/troubleshooting.md", "### The driver's log on a node", "<namespace>", pod.Namespace, "<pod>", pod.Name)
	_, failed, _ := strings.Cut(log, fmt.Sprintf(`GRPC error: rpc error: code = Internal desc = Could not mount "%s:/" at "/var/lib/kubelet/pods/%s/`, efsFileSystem, pod.UID))
	assert.Containsf(t, failed, refused, "why the mount for pod %s, UID %s, failed:\n%s", pod.Name, pod.UID, log)
}

// awaitAvailable waits until a SharedVolume reports its state in AWS with a reason.
func (b efsBed) awaitAvailable(t *testing.T, shared *sharedvolume.SharedVolume, reason string) {
	t.Helper()
	cluster.Eventually(t, testbed.Limit, "SharedVolume "+shared.Name+" to say "+reason, func(ctx context.Context) error {
		if err := b.Client().Get(ctx, client.ObjectKeyFromObject(shared), shared); err != nil {
			return err
		}
		found := meta.FindStatusCondition(shared.Status.Conditions, sharedvolume.ConditionFileSystemAvailable)
		if found == nil || found.Reason != reason {
			return fmt.Errorf("its conditions are %+v", shared.Status.Conditions)
		}
		return nil
	})
}
