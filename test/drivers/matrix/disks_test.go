package matrix

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/drivers/accounts"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// disks is a testbed with a driver whose volumes are devices of the nodes. One node at a time can use a volume.
type disks struct {
	*testbed.Testbed
	namespace string
	class     string        // of claims
	devices   string        // the pattern of the devices' paths on a node
	left      func() string // describes the volumes and snapshots in the cloud; "" if there are none
}

// describeLeft returns the text for disks.left.
func describeLeft[V, S any](volumes []V, snapshots []S) string {
	if len(volumes)+len(snapshots) == 0 {
		return ""
	}
	return fmt.Sprintf("volumes %+v and snapshots %+v", volumes, snapshots)
}

// volumeOf returns the volume of a claim, of all volumes in the cloud. has reports whether a volume has a handle.
func volumeOf[V any](t *testing.T, b *disks, claim *corev1.PersistentVolumeClaim, all []V, has func(v V, handle string) bool) V {
	t.Helper()
	handle := b.Bound(t, claim).Spec.CSI.VolumeHandle
	at := slices.IndexFunc(all, func(v V) bool { return has(v, handle) })
	require.GreaterOrEqualf(t, at, 0, "claim %s is of volume %s, and the cloud has %+v", claim.Name, handle, all)
	return all[at]
}

// claim creates a claim that one node at a time can use.
func (b *disks) claim(t *testing.T, c testbed.Claim) *corev1.PersistentVolumeClaim {
	t.Helper()
	c.Namespace, c.Mode = b.namespace, corev1.ReadWriteOnce
	if c.Class == "" {
		c.Class = b.class
	}
	return b.Claim(t, c)
}

// addClass creates a StorageClass with parameters.
func (b *disks) addClass(t *testing.T, name string, parameters map[string]string) {
	t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: b.Driver.CSIName, AllowVolumeExpansion: new(true),
		Parameters: parameters, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	require.NoError(t, b.Client().Create(t.Context(), class))
}

// publish makes a pod write, and then a pod on the second node that is not root. It returns that pod.
func (b *disks) publish(t *testing.T, claim *corev1.PersistentVolumeClaim, writer testbed.RunningPod) testbed.RunningPod {
	t.Helper()
	writer.Write(t, "greeting", "ahoy")
	b.Delete(t, writer.Pod)
	writer = b.Run(t, testbed.Pod{Name: "writer", Node: testbed.Nodes[1], Claim: claim, User: writerID})
	assert.EqualValues(t, "ahoy", writer.Read(t, "greeting"), "on another node, a pod reads")
	writer.Write(t, "greeting", "ahoy again")
	return writer
}

// copy creates a claim from a snapshot or another claim. The copy has a greeting.
func (b *disks) copy(t *testing.T, name string, source *corev1.TypedLocalObjectReference, greeting string) {
	t.Helper()
	claim := b.claim(t, testbed.Claim{Name: name, Source: source})
	pod := b.Run(t, testbed.Pod{Name: name, Node: testbed.Nodes[0], Claim: claim, User: writerID})
	assert.EqualValuesf(t, greeting, pod.Read(t, "greeting"), "the volume of claim %s has", name)
	b.Delete(t, pod.Pod, claim)
}

// restore creates a claim from a snapshot, which has a greeting, and deletes both.
func (b *disks) restore(t *testing.T, snapshot client.Object, greeting string) {
	t.Helper()
	b.copy(t, "restored", &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: snapshot.GetName()}, greeting)
	b.Delete(t, snapshot)
}

// clone creates a claim from another, which has a greeting.
func (b *disks) clone(t *testing.T, claim *corev1.PersistentVolumeClaim, greeting string) {
	t.Helper()
	b.copy(t, "clone", &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: claim.Name}, greeting)
}

// use makes pods on both nodes use a volume, and deletes it.
func (b *disks) use(t *testing.T) {
	t.Helper()
	claim := b.claim(t, testbed.Claim{Name: "data"})
	writer := b.publish(t, claim, b.Run(t, testbed.Pod{Name: "writer", Node: testbed.Nodes[0], Claim: claim}))
	b.Delete(t, writer.Pod, claim)
	b.wantEmpty(t)
	b.CheckNoRestarts(t)
}

// wantEmpty waits until nothing is left in the cloud, nor on the nodes.
func (b *disks) wantEmpty(t *testing.T) {
	t.Helper()
	cluster.Eventually(t, testbed.Limit, "the cloud to be empty", func(ctx context.Context) error {
		volumes := &corev1.PersistentVolumeList{}
		if err := b.Client().List(ctx, volumes); err != nil {
			return err
		}
		if left := b.left(); left != "" || len(volumes.Items) > 0 {
			return fmt.Errorf("it has %s; the cluster has %d volumes", left, len(volumes.Items))
		}
		return nil
	})
	for _, node := range testbed.Nodes {
		root, err := b.NodeRoot(node)
		require.NoError(t, err)
		if left, err := filepath.Glob(filepath.Join(root, b.devices)); err != nil || len(left) > 0 {
			t.Errorf("node %s still has the devices %q (error %v)", node, left, err)
		}
	}
}

// settle runs the final checks that all drivers share.
func settle(t *testing.T, bed *testbed.Testbed, unexercised map[string]string) {
	t.Run("metrics", bed.CheckMetrics)
	t.Run("restarts", bed.CheckNoRestarts)
	t.Run("permissions", func(t *testing.T) { accounts.Check(t, bed.Cluster, bed.Driver, bed.DriverNamespace(), unexercised) })
}

// modify changes a volume by its claim's VolumeAttributesClass, whose parameter goes from one value to another. current
// returns the value in the cloud.
func modify(t *testing.T, bed *testbed.Testbed, c testbed.Claim, parameter, slow, fast string, current func(*corev1.PersistentVolumeClaim) string) {
	t.Helper()
	for name, value := range map[string]string{"slow": slow, "fast": fast} {
		class := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: bed.Driver.CSIName, Parameters: map[string]string{parameter: value}}
		require.NoError(t, bed.Client().Create(t.Context(), class))
	}
	c.Name, c.Mode = "modified", corev1.ReadWriteOnce
	claim := c.Object()
	claim.Spec.VolumeAttributesClassName = new("slow")
	require.NoError(t, bed.Client().Create(t.Context(), claim))
	pod := bed.Run(t, testbed.Pod{Name: "modified", Node: testbed.Nodes[0], Claim: claim})
	assert.Equal(t, slow, current(claim), parameter+" of a new volume")
	before := claim.DeepCopy()
	claim.Spec.VolumeAttributesClassName = new("fast")
	require.NoError(t, bed.Client().Patch(t.Context(), claim, client.MergeFrom(before)))
	cluster.Eventually(t, testbed.Limit, "the volume to be modified", func(context.Context) error {
		if got := current(claim); got != fast {
			return fmt.Errorf("it has the %s %s, want %s", parameter, got, fast)
		}
		return nil
	})
	bed.Delete(t, pod.Pod, claim)
}

// wantAttached checks that exactly one VolumeAttachment exists, and that its volume is attached to a node.
func wantAttached(t *testing.T, bed *testbed.Testbed, node string) {
	t.Helper()
	attachments := &storagev1.VolumeAttachmentList{}
	require.NoError(t, bed.Client().List(t.Context(), attachments))
	if len(attachments.Items) != 1 || !attachments.Items[0].Status.Attached || attachments.Items[0].Spec.NodeName != node {
		t.Errorf("there are the VolumeAttachments %+v", attachments.Items)
	}
}

// expand expands a volume of each file system while a pod uses it. Its class has the file system's name and parameters;
// check checks the volume in the cloud.
func (b *disks) expand(t *testing.T, parameters map[string]string, check func(t *testing.T, claim *corev1.PersistentVolumeClaim)) {
	expand := func(t *testing.T, fs string) {
		t.Helper()
		withFS := map[string]string{"csi.storage.k8s.io/fstype": fs}
		maps.Copy(withFS, parameters)
		b.addClass(t, fs, withFS)
		claim := b.claim(t, testbed.Claim{Name: "expands-" + fs, Class: fs})
		pod := b.Run(t, testbed.Pod{Name: "expands-" + fs, Node: testbed.Nodes[0], Claim: claim})
		pod.Write(t, "greeting", "ahoy")
		before := pod.Size(t)
		b.Expand(t, claim, "3Gi")
		if after := pod.Size(t); before > 1<<30 || after < 5<<29 {
			t.Errorf("the file system had %d bytes and has %d, want less than 1 GiB and more than 2.5 GiB", before, after)
		}
		assert.Equal(t, "ahoy", pod.Read(t, "greeting"), "after the expansion, the pod reads")
		check(t, claim)
		b.Delete(t, pod.Pod, claim)
	}
	t.Run("xfs", func(t *testing.T) { expand(t, "xfs") })
	t.Run("ext4", func(t *testing.T) {
		// Linux requires it when a mounted ext4 grows, even for root.
		if may, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0); may != 1 {
			t.Skipf("no process here can have the capability CAP_SYS_RESOURCE, without which Linux expands no ext4 in use (error %v)", err)
		}
		expand(t, "ext4")
	})
}
