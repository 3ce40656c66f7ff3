package adoption

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// limit is how long anything may take.
const limit = time.Minute

// TestPreconditions: only the observed object is deleted, in its observed state. If somebody has recreated or changed
// it since, it survives.
func TestPreconditions(t *testing.T) {
	c := cluster.Start(t, cluster.Options{OLM: true})
	namespace := c.Namespace(t)
	in := metav1.ObjectMeta{Namespace: namespace, Name: "boat"}
	for step, tc := range map[migrate.StepName]struct {
		object  client.Object
		observe func(*state, client.Object)
	}{
		DeleteSubscription: {&v1alpha1.Subscription{ObjectMeta: in, Spec: &v1alpha1.SubscriptionSpec{CatalogSource: "none", CatalogSourceNamespace: namespace, Package: "boat-operator"}},
			func(s *state, o client.Object) {
				s.subscriptions = []v1alpha1.Subscription{*o.DeepCopyObject().(*v1alpha1.Subscription)}
				s.plan.Operator.Subscription = &Reference{Name: o.GetName(), UID: o.GetUID()}
			}},
		DeleteInstallPlans: {&v1alpha1.InstallPlan{ObjectMeta: in, Spec: v1alpha1.InstallPlanSpec{Approval: v1alpha1.ApprovalManual, ClusterServiceVersionNames: []string{"boat-operator.v1.4.0"}}},
			func(s *state, o client.Object) {
				s.installPlans = []v1alpha1.InstallPlan{*o.DeepCopyObject().(*v1alpha1.InstallPlan)}
			}},
		DeleteVersion: {&v1alpha1.ClusterServiceVersion{ObjectMeta: in, Spec: v1alpha1.ClusterServiceVersionSpec{DisplayName: "Boat", InstallStrategy: v1alpha1.NamedInstallStrategy{
			StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{}}}}},
			func(s *state, o client.Object) {
				s.versions = []v1alpha1.ClusterServiceVersion{*o.DeepCopyObject().(*v1alpha1.ClusterServiceVersion)}
			}},
	} {
		t.Run("F12: "+string(step), func(t *testing.T) {
			create := func() client.Object {
				t.Helper()
				object := tc.object.DeepCopyObject().(client.Object)
				require.NoError(t, c.Client().Create(t.Context(), object))
				return object
			}
			s := begun()
			mustSurvive := func(object client.Object, what string) {
				t.Helper()
				if err := s.Execute(t.Context(), c.Client(), step); !apierrors.IsConflict(err) {
					t.Errorf("%s: error %v, want a conflict", what, err)
				}
				uid := object.GetUID()
				if err := c.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.GetUID() != uid || object.GetDeletionTimestamp() != nil {
					t.Errorf("%s: UID %s, deletion at %v, %v; want it with UID %s as before", what, object.GetUID(), object.GetDeletionTimestamp(), err, uid)
				}
			}

			observed := create()
			tc.observe(s, observed)
			require.NoError(t, c.Client().Delete(t.Context(), observed))
			cluster.Eventually(t, limit, "the first object to be gone", c.Gone(observed))
			second := create()
			mustSurvive(second, "another object of the name")

			tc.observe(s, second)
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"example.com/changed": "yes"}}})
			require.NoError(t, err)
			require.NoError(t, c.Client().Patch(t.Context(), second.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, patch)))
			mustSurvive(second, "an object that has changed")

			// OLM writes to such objects itself, so this may take several attempts.
			cluster.Eventually(t, limit, "the object to be deleted as it was observed", func(ctx context.Context) error {
				if err := c.Client().Get(ctx, client.ObjectKeyFromObject(second), second); err != nil {
					return err
				}
				tc.observe(s, second)
				return s.Execute(ctx, c.Client(), step)
			})
		})
	}
}
