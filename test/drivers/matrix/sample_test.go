package matrix

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driver "github.com/berth-csi/berth/drivers/sample"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/folders"
	"github.com/berth-csi/berth/test/drivers/accounts"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// The sample driver's StorageClass and VolumeSnapshotClass, and where it expects the folder that nodes share.
const (
	sampleClass  = "sample-csi"
	sampleFolder = "/var/lib/sample-csi-driver"
)

// testSample runs the sample driver. Its cloud is a folder.
func testSample(t *testing.T) {
	folder := t.TempDir()
	bed := testbed.Start(t, testbed.Options{Driver: driver.Driver, Snapshots: true, Cloud: testbed.Cloud{Prepare: func(c *cluster.Cluster) {
		for _, node := range testbed.Nodes {
			require.NoError(t, c.MountOn(node, folder, sampleFolder))
		}
	}}})
	// made returns the names of the volumes or the snapshots in the folder.
	made := func(t *testing.T, kind string) (names []string) {
		t.Helper()
		entries, err := os.ReadDir(filepath.Join(folder, kind))
		require.NoError(t, err)
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}
	namespace := bed.Namespace(t)
	claim := bed.Claim(t, testbed.Claim{Namespace: namespace, Name: "files", Class: sampleClass})
	var volume *corev1.PersistentVolume
	t.Run("provision", func(t *testing.T) {
		volume = bed.Bound(t, claim)
		if got := made(t, "volumes"); len(got) != 1 || got[0] != volume.Spec.CSI.VolumeHandle {
			t.Errorf("the driver made the volumes %q, want %q", got, volume.Spec.CSI.VolumeHandle)
		}
	})
	var users []client.Object
	t.Run("publish", func(t *testing.T) {
		first := bed.Run(t, testbed.Pod{Name: "first", Node: testbed.Nodes[0], Claim: claim})
		second := bed.Run(t, testbed.Pod{Name: "second", Node: testbed.Nodes[1], Claim: claim})
		users = append(users, first.Pod, second.Pod)
		first.Write(t, "greeting", "ahoy")
		assert.Equalf(t, "ahoy", second.Read(t, "greeting"), "the pod on node %s reads", testbed.Nodes[1])
		second.Write(t, "answer", "aye")
		assert.Equalf(t, "aye", first.Read(t, "answer"), "the pod on node %s reads", testbed.Nodes[0])
	})
	t.Run("expand", func(t *testing.T) {
		bed.Expand(t, claim, "2Gi")
		store, err := folders.OpenStore(folder)
		require.NoError(t, err)
		if got, err := store.Get(folders.Volumes, volume.Spec.CSI.VolumeHandle); err != nil || got.Bytes != 2<<30 {
			t.Errorf("the volume is %+v (error %v), want one of 2 GiB", got, err)
		}
	})
	t.Run("snapshot", func(t *testing.T) {
		snapshot := bed.Snapshot(t, claim, "day-1", sampleClass)
		assert.Len(t, made(t, "snapshots"), 1, "the driver made the snapshots")
		restored := bed.Claim(t, testbed.Claim{Namespace: namespace, Name: "restored", Class: sampleClass, Size: "2Gi", Source: &corev1.TypedLocalObjectReference{
			APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: snapshot.GetName()}})
		reader := bed.Run(t, testbed.Pod{Name: "reader", Node: testbed.Nodes[0], Claim: restored})
		assert.EqualValues(t, "aye", reader.Read(t, "answer"), "on the restored volume")
		bed.Delete(t, reader.Pod, restored, snapshot)
	})
	t.Run("delete", func(t *testing.T) {
		bed.Delete(t, append(users, claim)...)
		cluster.Eventually(t, testbed.Limit, "the volume to be gone", bed.Gone(volume))
		for _, kind := range []string{"volumes", "snapshots", "incomplete"} {
			assert.Emptyf(t, made(t, kind), "the folder still has the %s", kind)
		}
	})
	t.Run("permissions", func(t *testing.T) {
		accounts.Check(t, bed.Cluster, driver.Driver, bed.DriverNamespace(), map[string]string{
			"sample-privileged-role: use securitycontextconstraints.security.openshift.io sample-csi-driver": "the cluster does not admit pods by SecurityContextConstraints",
		})
	})
}
