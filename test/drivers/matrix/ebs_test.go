package matrix

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/aws/gateway"
	"github.com/berth-csi/berth/lab/aws/metadata"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/drivers/accounts"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// ebsClass is a class of the driver.
const ebsClass = "gp3-csi"

// ebsBed is a testbed with the EBS driver. Its volumes are devices of the nodes.
type ebsBed struct {
	*testbed.Testbed
	cloud *testbed.AWS
}

func startEBS(t *testing.T, options testbed.EBSOptions) *ebsBed {
	t.Helper()
	bed := testbed.StartEBS(t, ebs.Driver, options)
	return &ebsBed{bed.Testbed, bed.Region}
}

// claim creates a claim that one node at a time can use.
func (b *ebsBed) claim(t *testing.T, c testbed.Claim) *corev1.PersistentVolumeClaim {
	t.Helper()
	c.Mode = corev1.ReadWriteOnce
	if c.Class == "" {
		c.Class = ebsClass
	}
	return b.Claim(t, c)
}

// volumeOf returns the volume of a claim in the cloud.
func (b *ebsBed) volumeOf(t *testing.T, claim *corev1.PersistentVolumeClaim) ec2.Volume {
	t.Helper()
	id := b.Bound(t, claim).Spec.CSI.VolumeHandle
	for _, v := range b.cloud.EC2.Volumes() {
		if v.ID == id {
			return v
		}
	}
	t.Fatalf("the cloud has no volume %s of claim %s", id, claim.Name)
	return ec2.Volume{}
}

// failed returns the calls that AWS has refused for a reason other than that something does not exist. The driver finds
// out limits by dry runs that fail.
func (b *ebsBed) failed() []gateway.Call {
	return slices.DeleteFunc(b.cloud.Calls(), func(call gateway.Call) bool {
		return call.Error == "" || strings.HasSuffix(call.Error, ".NotFound") || call.Parameters["DryRun"] == "true"
	})
}

// testEBS runs the driver with a key pair, and then with tokens.
func testEBS(t *testing.T) {
	bed := startEBS(t, testbed.EBSOptions{Tags: []configv1.AWSResourceTag{{Key: "team", Value: "harbour"}}})
	namespace := bed.Namespace(t)
	data := bed.claim(t, testbed.Claim{Namespace: namespace, Name: "data"})
	var writer testbed.RunningPod
	first, second := testbed.Nodes[0], testbed.Nodes[1]

	t.Run("provision", func(t *testing.T) {
		writer = bed.Run(t, testbed.Pod{Name: "writer", Node: first, Claim: data})
		volume := bed.volumeOf(t, data)
		if volume.Size != 1 || volume.Type != "gp3" || !volume.Encrypted || volume.Zone != bed.cloud.Instances[0].Zone {
			t.Errorf("got the volume %+v, want an encrypted one of type gp3 with 1 GiB in the zone of its pod", volume)
		}
	})
	t.Run("tags", func(t *testing.T) {
		want := map[string]string{"team": "harbour", "kubernetes.io/cluster/" + cluster.InfrastructureName: "owned", "CSIVolumeName": bed.Bound(t, data).Name,
			"kubernetes.io/created-for/pvc/name": data.Name, "kubernetes.io/created-for/pvc/namespace": namespace}
		wantTags(t, bed.volumeOf(t, data).Tags, want)
	})
	t.Run("attach", func(t *testing.T) {
		volume := bed.volumeOf(t, data)
		if len(volume.Attachments) != 1 || volume.Attachments[0].InstanceID != bed.cloud.Instances[0].ID {
			t.Fatalf("the volume has the attachments %+v, want one to the instance of node %s", volume.Attachments, first)
		}
		wantAttached(t, bed.Testbed, first)
	})
	t.Run("publish", func(t *testing.T) {
		writer.Write(t, "greeting", "ahoy")
		bed.Delete(t, writer.Pod)
		writer = bed.Run(t, testbed.Pod{Name: "writer", Node: second, Claim: data, User: 1000})
		assert.EqualValues(t, "ahoy", writer.Read(t, "greeting"), "on another node, a pod reads")
		writer.Write(t, "greeting", "ahoy again")
	})
	t.Run("expand", func(t *testing.T) {
		expandEach(t, func(t *testing.T, fs string) { bed.expand(t, namespace, fs) })
	})
	t.Run("modify", func(t *testing.T) { bed.modify(t, namespace) })
	t.Run("snapshot", func(t *testing.T) {
		snapshot := bed.Snapshot(t, data, "snapshot", "csi-aws-vsc")
		for _, s := range bed.cloud.EC2.Snapshots() {
			wantTags(t, s.Tags, map[string]string{"team": "harbour", "kubernetes.io/cluster/" + cluster.InfrastructureName: "owned"})
		}
		writer.Write(t, "greeting", "later")
		restored := bed.claim(t, testbed.Claim{Namespace: namespace, Name: "restored",
			Source: &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: snapshot.GetName()}})
		pod := bed.Run(t, testbed.Pod{Name: "restored", Node: first, Claim: restored, User: 1000})
		assert.EqualValues(t, "ahoy again", pod.Read(t, "greeting"), "the restored volume has")
		bed.Delete(t, pod.Pod, restored, snapshot)
	})
	t.Run("clone", func(t *testing.T) {
		clone := bed.claim(t, testbed.Claim{Namespace: namespace, Name: "clone",
			Source: &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: data.Name}})
		pod := bed.Run(t, testbed.Pod{Name: "clone", Node: first, Claim: clone, User: 1000})
		assert.EqualValues(t, "later", pod.Read(t, "greeting"), "the clone has")
		bed.Delete(t, pod.Pod, clone)
	})
	t.Run("node_without_metadata", func(t *testing.T) { bed.restartWithoutMetadata(t, 0) })
	t.Run("delete", func(t *testing.T) {
		bed.Delete(t, writer.Pod, data)
		bed.wantEmpty(t)
	})
	t.Run("private_endpoint", func(t *testing.T) {
		// No other way leads to the cloud than its endpoints, whose certificates only its own CA has signed.
		bed.wantPrincipal(t, "arn:aws:iam::111122223333:user/aws-ebs-csi-driver-operator")
	})
	t.Run("calls", func(t *testing.T) {
		for _, call := range bed.failed() {
			t.Errorf("AWS refused %s: %s", call.Action, call.Error)
		}
	})
	t.Run("metrics", bed.CheckMetrics)
	t.Run("restarts", bed.CheckNoRestarts)
	t.Run("permissions", func(t *testing.T) { accounts.Check(t, bed.Cluster, ebs.Driver, bed.DriverNamespace(), ebsUnexercised) })
	t.Run("STS", testEBSWithTokens)
	t.Run("cluster_storage", testEBSOfPlatform)
}

// testEBSOfPlatform runs the driver as the cluster storage operator does: without a package.
func testEBSOfPlatform(t *testing.T) {
	driver := ebs.Driver
	driver.Package = drivers.Package{}
	started := testbed.StartEBS(t, driver, testbed.EBSOptions{})
	bed := &ebsBed{started.Testbed, started.Region}
	claim := bed.claim(t, testbed.Claim{Namespace: bed.Namespace(t), Name: "data"})
	pod := bed.Run(t, testbed.Pod{Name: "writer", Node: testbed.Nodes[0], Claim: claim})
	pod.Write(t, "greeting", "ahoy")
	bed.Delete(t, pod.Pod, claim)
	bed.wantEmpty(t)
	bed.CheckNoRestarts(t)
}

// wantPrincipal fails the test if others than the principal with the prefix called AWS.
func (b *ebsBed) wantPrincipal(t *testing.T, prefix string) {
	t.Helper()
	calls := b.cloud.Calls()
	if len(calls) == 0 {
		t.Error("nobody called AWS")
	}
	for _, call := range calls {
		if !strings.HasPrefix(call.Principal, prefix) && call.Action != "AssumeRoleWithWebIdentity" {
			t.Errorf("%s was called by %q, want %s", call.Action, call.Principal, prefix)
		}
	}
}

func wantTags(t *testing.T, got, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("the tag %s has the value %q, want %q; all are %v", key, got[key], value, got)
		}
	}
}

// expand expands a volume while a pod uses it.
func (b *ebsBed) expand(t *testing.T, namespace, fs string) {
	t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: fs}, Provisioner: ebs.Driver.CSIName, AllowVolumeExpansion: new(true),
		Parameters:        map[string]string{"csi.storage.k8s.io/fstype": fs},
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	require.NoError(t, b.Client().Create(t.Context(), class))
	claim := b.claim(t, testbed.Claim{Namespace: namespace, Name: "expands-" + fs, Class: class.Name})
	pod := b.Run(t, testbed.Pod{Name: "expands-" + fs, Node: testbed.Nodes[0], Claim: claim})
	expandInUse(t, b.Testbed, claim, pod)
	if v := b.volumeOf(t, claim); v.Size != 3 {
		t.Errorf("the volume has %d GiB, want 3", v.Size)
	}
	b.Delete(t, pod.Pod, claim)
}

// modify changes a volume by its claim's VolumeAttributesClass.
func (b *ebsBed) modify(t *testing.T, namespace string) {
	t.Helper()
	for name, iops := range map[string]string{"slow": "3100", "fast": "3200"} {
		class := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: ebs.Driver.CSIName, Parameters: map[string]string{"iops": iops}}
		require.NoError(t, b.Client().Create(t.Context(), class))
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "modified"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(ebsClass), VolumeAttributesClassName: new("slow"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}}, // enough for these IOPS
		},
	}
	require.NoError(t, b.Client().Create(t.Context(), claim))
	pod := b.Run(t, testbed.Pod{Name: "modified", Node: testbed.Nodes[0], Claim: claim})
	if v := b.volumeOf(t, claim); v.IOPS != 3100 {
		t.Errorf("the volume has %d IOPS, want 3100 as its class says", v.IOPS)
	}
	before := claim.DeepCopy()
	claim.Spec.VolumeAttributesClassName = new("fast")
	require.NoError(t, b.Client().Patch(t.Context(), claim, client.MergeFrom(before)))
	cluster.Eventually(t, testbed.Limit, "the volume to be modified", func(context.Context) error {
		if v := b.volumeOf(t, claim); v.IOPS != 3200 {
			return fmt.Errorf("it has %d IOPS, want 3200", v.IOPS)
		}
		return nil
	})
	b.Delete(t, pod.Pod, claim)
}

// notReady is the taint that the driver removes from its node when it is registered there.
const notReady = "ebs.csi.aws.com/agent-not-ready"

// restartWithoutMetadata restarts the driver on a node where the metadata service does not answer. It finds everything
// in its Node, and removes the administrator's taint that has kept pods away.
func (b *ebsBed) restartWithoutMetadata(t *testing.T, index int) {
	t.Helper()
	node := testbed.Nodes[index]
	b.cloud.Metadata[index].SetState(metadata.Disabled)
	defer b.cloud.Metadata[index].SetState(metadata.Up)
	before := &storagev1.CSINode{}
	require.NoError(t, b.Client().Get(t.Context(), client.ObjectKey{Name: node}, before))
	n := &corev1.Node{}
	require.NoError(t, b.Client().Get(t.Context(), client.ObjectKey{Name: node}, n))
	untainted := n.DeepCopy()
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: notReady, Effect: corev1.TaintEffectNoSchedule})
	require.NoError(t, b.Client().Patch(t.Context(), n, client.MergeFrom(untainted)))
	pods := &corev1.PodList{}
	require.NoError(t, b.Client().List(t.Context(), pods, client.InNamespace(b.DriverNamespace()), client.MatchingLabels{"app": "aws-ebs-csi-driver-node"}))
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == node {
			b.Delete(t, &pod)
		}
	}
	cluster.Eventually(t, testbed.Limit, "the driver to remove its taint from node "+node, func(ctx context.Context) error {
		n := &corev1.Node{}
		if err := b.Client().Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
			return err
		}
		if slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == notReady }) {
			return fmt.Errorf("it has the taints %+v", n.Spec.Taints)
		}
		return nil
	})
	const account = ":aws-ebs-csi-driver-node-sa"
	cluster.Eventually(t, testbed.Limit, "the driver to read its Node", func(context.Context) error {
		for _, request := range b.Audit(t) {
			if request.Verb == "get" && request.Resource == "nodes" && request.Name == node && strings.HasSuffix(request.User, account) {
				return nil
			}
		}
		return fmt.Errorf("no request of %s gets the Node %s", account, node)
	})
	// While the driver restarts, the kubelet takes it out of the CSINode.
	cluster.Eventually(t, testbed.Limit, "the driver to register as before", func(ctx context.Context) error {
		after := &storagev1.CSINode{}
		if err := b.Client().Get(ctx, client.ObjectKey{Name: node}, after); err != nil {
			return err
		}
		if diff := cmp.Diff(before.Spec.Drivers, after.Spec.Drivers); diff != "" {
			return fmt.Errorf("without metadata, it registers differently (-before +after):\n%s", diff)
		}
		return nil
	})
}

// wantEmpty waits until nothing is left in the cloud, nor on the nodes.
func (b *ebsBed) wantEmpty(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, testbed.Limit, "the cloud to be empty", func(ctx context.Context) error {
		volumes := &corev1.PersistentVolumeList{}
		if err := b.Client().List(ctx, volumes); err != nil {
			return err
		}
		if left, snapshots := b.cloud.EC2.Volumes(), b.cloud.EC2.Snapshots(); len(left)+len(snapshots)+len(volumes.Items) > 0 {
			return fmt.Errorf("it has the volumes %+v and the snapshots %+v; the cluster has %d volumes", left, snapshots, len(volumes.Items))
		}
		return nil
	})
	for _, node := range testbed.Nodes {
		root, err := b.NodeRoot(node)
		require.NoError(t, err)
		if left, err := filepath.Glob(filepath.Join(root, "dev/nvme*")); err != nil || len(left) > 0 {
			t.Errorf("node %s still has the devices %q (error %v)", node, left, err)
		}
	}
}

// ebsUnexercised says why the run needs no use of these permissions.
var ebsUnexercised = map[string]string{
	"ebs-privileged-role: use securitycontextconstraints.security.openshift.io aws-ebs-csi-driver-node": "the cluster does not admit pods by SecurityContextConstraints",
}

// testEBSWithTokens runs the driver without any key pair, behind a proxy. Its sessions in AWS end after some seconds.
func testEBSWithTokens(t *testing.T) {
	bed := startEBS(t, testbed.EBSOptions{Region: aws.Options{SessionLifetime: 10 * time.Second}, Tokens: true, BehindProxy: true})
	claim := bed.claim(t, testbed.Claim{Namespace: bed.Namespace(t), Name: "data"})
	pod := bed.Run(t, testbed.Pod{Name: "writer", Node: testbed.Nodes[0], Claim: claim})
	pod.Write(t, "greeting", "ahoy")
	bed.Delete(t, pod.Pod)
	pod = bed.Run(t, testbed.Pod{Name: "writer", Node: testbed.Nodes[1], Claim: claim})
	assert.EqualValues(t, "ahoy", pod.Read(t, "greeting"), "on another node, a pod reads")
	bed.Delete(t, pod.Pod, claim)
	bed.wantEmpty(t)
	bed.wantPrincipal(t, "arn:aws:sts::111122223333:assumed-role/aws-ebs-csi-driver-operator/")
	sessions := 0
	for _, call := range bed.cloud.Calls() {
		if call.Action == "AssumeRoleWithWebIdentity" {
			sessions++
		}
	}
	if sessions < 2 {
		t.Errorf("the driver started %d sessions, want a new one when the first has ended", sessions)
	}
	bed.CheckNoRestarts(t)
}
