package matrix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-csi/berth/drivers/azuredisk"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

const azureDiskClass = "managed-csi"

// azureDiskUnexercised says why the run needs no use of these permissions.
var azureDiskUnexercised = map[string]string{
	"azure-disk-privileged-role: use securitycontextconstraints.security.openshift.io azure-disk-csi-driver-node": "the cluster does not admit pods by SecurityContextConstraints",
}

// testAzureDisk runs the driver as a service principal, and then with tokens.
func testAzureDisk(t *testing.T) {
	bed := startAzure(t, azuredisk.Driver, azureDiskClass, corev1.ReadWriteOnce, testbed.AzureOptions{Tags: azureTags})
	first, second := testbed.Nodes[0], testbed.Nodes[1]
	data := bed.claim(t, "data", nil)
	var writer testbed.RunningPod
	t.Run("default_class", func(t *testing.T) {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: azureDiskClass}}
		bed.read(t, class)
		assert.Equal(t, "true", class.Annotations["storageclass.kubernetes.io/is-default-class"], "the annotation that makes the class the default")
	})
	t.Run("nodes", func(t *testing.T) {
		for _, name := range testbed.Nodes {
			node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
			bed.read(t, node)
			if len(node.Spec.Drivers) != 1 || node.Spec.Drivers[0].Allocatable == nil || ptr.Deref(node.Spec.Drivers[0].Allocatable.Count, 0) != 16 {
				t.Errorf("node %s has the drivers %+v, want one that attaches 16 disks", name, node.Spec.Drivers)
			}
		}
	})
	t.Run("provision", func(t *testing.T) {
		writer = bed.Run(t, testbed.Pod{Name: "writer", Node: first, Claim: data})
		if got := bed.volume(t, data); got.Bytes != 1<<30 || got.Parameters["skuname"] != "Premium_LRS" {
			t.Errorf("the storage has %+v, want a disk of 1 GiB of the class's kind", got)
		}
		affinity := bed.Bound(t, data).Spec.NodeAffinity
		if affinity == nil || affinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != testbed.AzureZone {
			t.Errorf("the volume has the affinity %+v, want zone %s", affinity, testbed.AzureZone)
		}
	})
	const tags = "kubernetes.io_cluster." + cluster.InfrastructureName + "=owned|team=harbour,pier"
	t.Run("tags", func(t *testing.T) { wantAzureTags(t, "volume", bed.volume(t, data), tags) })
	t.Run("attach", func(t *testing.T) {
		assert.EqualValues(t, first, bed.volume(t, data).Node, "the disk is attached to")
		wantAttached(t, bed.Testbed, first)
	})
	t.Run("publish", func(t *testing.T) {
		writer.Write(t, "greeting", "ahoy")
		bed.Delete(t, writer.Pod)
		writer = bed.Run(t, testbed.Pod{Name: "writer", Node: second, Claim: data})
		assert.EqualValues(t, "ahoy", writer.Read(t, "greeting"), "on another node, a pod reads")
		assert.EqualValues(t, second, bed.volume(t, data).Node, "the disk is attached to")
	})
	t.Run("expand", func(t *testing.T) { bed.expand(t, data) })
	t.Run("modify", func(t *testing.T) {
		const parameter = "DiskIOPSReadWrite"
		c := testbed.Claim{Namespace: bed.namespace, Class: azureDiskClass}
		modify(t, bed.Testbed, c, parameter, "500", "5000", func(claim *corev1.PersistentVolumeClaim) string { return bed.volume(t, claim).Parameters[parameter] })
	})
	t.Run("snapshot", func(t *testing.T) { bed.copies(t, data, "csi-azuredisk-vsc", "greeting", "ahoy", tags) })
	t.Run("delete", func(t *testing.T) {
		bed.Delete(t, writer.Pod, data)
		bed.wantEmpty(t)
	})
	t.Run("logins", bed.wantLogins)
	settle(t, bed.Testbed, azureDiskUnexercised)
	t.Run("STS", func(t *testing.T) { withTokens(t, azuredisk.Driver, azureDiskClass, corev1.ReadWriteOnce) })
}
