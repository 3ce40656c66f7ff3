package node_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

func TestNodeIsReady(t *testing.T) {
	c := sharedCluster(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-0"}}
	await(t, c, node, "the node to be ready and free of taints", func(node *corev1.Node) error {
		for _, condition := range node.Status.Conditions {
			if (condition.Status == corev1.ConditionTrue) != (condition.Type == corev1.NodeReady) {
				return fmt.Errorf("condition %s is %s", condition.Type, condition.Status)
			}
		}
		if len(node.Status.Conditions) == 0 || len(node.Spec.Taints) > 0 {
			return fmt.Errorf("conditions %v, taints %v", node.Status.Conditions, node.Spec.Taints)
		}
		return nil
	})
	for label, want := range map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH, corev1.LabelHostname: "worker-0"} {
		assert.EqualValuesf(t, want, node.Labels[label], "label %s", label)
	}
	api, err := discovery.NewDiscoveryClientForConfig(c.Config())
	require.NoError(t, err)
	version, err := api.ServerVersion()
	require.NoError(t, err)
	assert.Equal(t, version.GitVersion, node.Status.NodeInfo.KubeletVersion, "the kubelet's version")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "worker-0"}}
	await(t, c, lease, "the node's lease", func(lease *coordinationv1.Lease) error {
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != "worker-0" || lease.Spec.RenewTime == nil {
			return fmt.Errorf("got %s", toJSON(lease.Spec))
		}
		return nil
	})
}
