package matrix

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-csi/berth/test/drivers/testbed"
)

// The checks that are the same for all drivers of disks.

// wantAttached checks that exactly one VolumeAttachment exists, and that its volume is attached to a node.
func wantAttached(t *testing.T, bed *testbed.Testbed, node string) {
	t.Helper()
	attachments := &storagev1.VolumeAttachmentList{}
	require.NoError(t, bed.Client().List(t.Context(), attachments))
	if len(attachments.Items) != 1 || !attachments.Items[0].Status.Attached || attachments.Items[0].Spec.NodeName != node {
		t.Errorf("there are the VolumeAttachments %+v", attachments.Items)
	}
}

// expandEach runs a test for each file system.
func expandEach(t *testing.T, expand func(t *testing.T, fs string)) {
	t.Run("xfs", func(t *testing.T) { expand(t, "xfs") })
	t.Run("ext4", func(t *testing.T) {
		// Linux requires it when a mounted ext4 grows, even for root.
		if may, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0); may != 1 {
			t.Skipf("no process here can have the capability CAP_SYS_RESOURCE, without which Linux expands no ext4 in use (error %v)", err)
		}
		expand(t, "ext4")
	})
}

// expandInUse expands a claim of 1 GiB to 3 GiB while a pod uses it, and checks that the file system grows and keeps its files.
func expandInUse(t *testing.T, bed *testbed.Testbed, claim *corev1.PersistentVolumeClaim, pod testbed.RunningPod) {
	t.Helper()
	pod.Write(t, "greeting", "ahoy")
	before := pod.Size(t)
	bed.Expand(t, claim, "3Gi")
	if after := pod.Size(t); before > 1<<30 || after < 5<<29 {
		t.Errorf("the file system had %d bytes and has %d, want less than 1 GiB and more than 2.5 GiB", before, after)
	}
	if got := pod.Read(t, "greeting"); got != "ahoy" {
		t.Errorf("after the expansion, the pod reads %q", got)
	}
}
