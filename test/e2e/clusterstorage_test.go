package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/journey"
)

// TestDriverOfClusterStorage: where the cluster storage operator owns a driver, an operator of it that OLM installs changes
// nothing, and says so in its OperatorCondition, which OLM deletes with it.
func TestDriverOfClusterStorage(t *testing.T) {
	t.Parallel()
	driver, err := registry.Get("ebs")
	require.NoError(t, err)
	w := newEnvironment(t, driver, cluster.Options{})
	w.serveCatalog()
	// The cluster storage operator creates this before it starts its own operator of the driver.
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "aws-ebs-csi-driver-operator-clusterrolebinding"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "aws-ebs-csi-driver-operator-clusterrole"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: drivers.ClusterStorageNamespace, Name: "aws-ebs-csi-driver-operator"}},
	}
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver.CSIName},
		Spec: operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{
			ManagementState: operatorv1.Managed, LogLevel: operatorv1.Normal, OperatorLogLevel: operatorv1.Normal}}}
	w.create(binding)
	w.create(custom)
	own := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: w.subscribe(nil)}}
	w.waitForDegraded(own, metav1.ConditionTrue, binding.Name, "delete its Subscription")

	allowed := []string{"configmaps/" + driver.Operator.Lock, "operatorconditions/", "events/", "roles/" + driver.Operator.Name + "-prometheus", "rolebindings/" + driver.Operator.Name + "-prometheus", "tokenreviews/", "subjectaccessreviews/"}
	for _, event := range w.requests() {
		if slices.Contains([]string{"get", "list", "watch"}, event.Verb) {
			continue
		}
		if !slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(event.Resource+"/"+event.Name, prefix) }) {
			t.Errorf("for a driver of the cluster storage operator ours requested: %s %s", event.Verb, event.URI)
		}
	}
	before := custom.ResourceVersion
	if err := w.Client().Get(t.Context(), client.ObjectKeyFromObject(custom), custom); err != nil || custom.ResourceVersion != before {
		t.Errorf("the ClusterCSIDriver has changed: %+v, error %v", custom, err)
	}

	// The administrator disables the driver there.
	require.NoError(t, w.Client().Delete(t.Context(), binding))
	w.step(func(ctx context.Context, c client.Client) error { return journey.InstallDriver(ctx, c, driver.CSIName) })
	w.waitForDegraded(own, metav1.ConditionFalse)
	w.checkPermissions()
}

func (w *environment) waitForDegraded(own *operatorsv2.OperatorCondition, status metav1.ConditionStatus, words ...string) {
	w.t.Helper()
	w.Await(w.t, limit, fmt.Sprintf("Degraded to be %s", status), own, func() error {
		c := meta.FindStatusCondition(own.Status.Conditions, "Degraded")
		if c == nil || c.Status != status {
			return fmt.Errorf("it is %v", c)
		}
		for _, word := range words {
			assert.Contains(w.t, c.Message, word, "condition Degraded says")
		}
		return nil
	})
}
