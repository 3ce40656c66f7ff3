package tenant_test

import (
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/tenant"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// A tenant has an admin's permissions in its own project, and none elsewhere.
func TestTenant(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{OLM: true})
	who := tenant.New(t, c)
	own, others := who.Project(t, ""), c.Namespace(t)
	metadata := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "some"}
	}
	for _, test := range []struct {
		name    string
		object  func(namespace string) client.Object
		allowed bool // in its own project
	}{
		{"ConfigMap", func(ns string) client.Object { return &corev1.ConfigMap{ObjectMeta: metadata(ns)} }, true},
		{"Subscription", func(ns string) client.Object {
			return &v1alpha1.Subscription{ObjectMeta: metadata(ns), Spec: &v1alpha1.SubscriptionSpec{Package: "any"}}
		}, true},
		{"InstallPlan", func(ns string) client.Object {
			return &v1alpha1.InstallPlan{ObjectMeta: metadata(ns), Spec: v1alpha1.InstallPlanSpec{Approval: v1alpha1.ApprovalManual, ClusterServiceVersionNames: []string{"any"}}}
		}, false},
		{"ClusterRole", func(string) client.Object { return &rbacv1.ClusterRole{ObjectMeta: metadata("")} }, false},
		{"Namespace", func(string) client.Object { return &corev1.Namespace{ObjectMeta: metadata("")} }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := who.Client.Create(t.Context(), test.object(own), client.DryRunAll)
			assert.Equalf(t, test.allowed, err == nil, "in the own project: %v", err)
			err = who.Client.Create(t.Context(), test.object(others), client.DryRunAll)
			assert.Truef(t, apierrors.IsForbidden(err), "in a namespace of others: %v, want it forbidden", err)
		})
	}
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"some":"label"}}}`))
	err := who.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own}}, label)
	assert.Truef(t, apierrors.IsForbidden(err), "labelling the own project: %v, want it forbidden", err)
}
