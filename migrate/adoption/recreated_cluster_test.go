package adoption

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
)

// TestRecreatedNamespaceBlocksNoCleanup: a tenant has recreated the namespace of an operator that was handed over, with
// a ReplicaSet whose pods would run as that operator's account.
func TestRecreatedNamespaceBlocksNoCleanup(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	namespace := c.Namespace(t)
	uid, err := migrate.NamespaceUID(t.Context(), c.Client(), namespace)
	require.NoError(t, err)
	operator := boat.Predecessors()[0].Operator
	labels := map[string]string{"app": "mine"}
	none := int32(0)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}, Spec: appsv1.ReplicaSetSpec{Replicas: &none,
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{ServiceAccountName: operator, Containers: []corev1.Container{{Name: "c", Image: "registry.example/c:1"}}}}}}
	require.NoError(t, c.Client().Create(t.Context(), client.Object(set)))
	for name, test := range map[string]struct {
		namespace string
		uid       types.UID
		left      string
	}{
		"the operator's namespace": {namespace, uid, "ReplicaSet " + namespace + "/mine"},
		"a recreated one":          {namespace, "11111111-1111-1111-1111-111111111111", ""},
		"none":                     {"gone-" + namespace, uid, ""},
	} {
		m := &remains{input: &input{driver: boat}, journal: &migrate.Journal{Plan: &Plan{Operator: &Operator{Namespace: test.namespace, NamespaceUID: test.uid, Name: operator}}}}
		if err := m.readLeft(t.Context(), c.Client()); err != nil || m.left != test.left {
			t.Errorf("%s: %q is left (%v), want %q", name, m.left, err, test.left)
		}
	}
}
