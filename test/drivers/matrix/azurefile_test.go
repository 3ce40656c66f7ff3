package matrix

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers/azurefile"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

const azureFileClass = "azurefile-csi"

// azureFileUnexercised says why the run needs no use of these permissions.
var azureFileUnexercised = map[string]string{
	"azure-file-privileged-role: use securitycontextconstraints.security.openshift.io azure-file-csi-driver-node": "the cluster does not admit pods by SecurityContextConstraints",
	"azure-file-csi-driver-controller-role: read secrets":                                                         "the real driver reads the key there if Azure does not tell it",
}

// testAzureFile runs the driver as a service principal, and then with tokens.
func testAzureFile(t *testing.T) {
	bed := startAzure(t, azurefile.Driver, azureFileClass, corev1.ReadWriteMany, testbed.AzureOptions{Tags: azureTags})
	files := bed.claim(t, "files", nil)
	t.Run("provision", func(t *testing.T) {
		if got := bed.volume(t, files); got.Bytes != 1<<30 || got.Parameters["skuName"] != "Standard_LRS" {
			t.Errorf("the storage has %+v, want a share of 1 GiB of the class's kind", got)
		}
		bed.read(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: bed.namespace, Name: "azure-storage-account-fstandin-secret"}}) // nodes mount with it
	})
	t.Run("tags", func(t *testing.T) {
		wantAzureTags(t, "volume", bed.volume(t, files), "kubernetes.io_cluster."+cluster.InfrastructureName+"=owned|storageClassName=azurefile-csi|team=harbour,pier")
	})
	var first, second testbed.RunningPod
	t.Run("publish", func(t *testing.T) {
		first = bed.Run(t, testbed.Pod{Name: "first", Node: testbed.Nodes[0], Claim: files})
		second = bed.Run(t, testbed.Pod{Name: "second", Node: testbed.Nodes[1], Claim: files})
		first.Write(t, "greeting", "ahoy")
		assert.Equalf(t, "ahoy", second.Read(t, "greeting"), "the pod on node %s reads", testbed.Nodes[1])
	})
	t.Run("expand", func(t *testing.T) { bed.expand(t, files) })
	t.Run("snapshot", func(t *testing.T) { bed.copies(t, files, "csi-azurefile-vsc", "greeting", "ahoy", "") })
	t.Run("delete", func(t *testing.T) {
		bed.Delete(t, first.Pod, second.Pod, files)
		bed.wantEmpty(t)
	})
	t.Run("logins", bed.wantLogins)
	settle(t, bed.Testbed, azureFileUnexercised)
	t.Run("STS", func(t *testing.T) { withTokens(t, azurefile.Driver, azureFileClass, corev1.ReadWriteMany) })
}
