package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/admission"
	"github.com/berth-csi/berth/lab/cluster"
)

// refusal is the message of these tests' policies.
const refusal = "frozen by the security team"

// TestRefusedObjectHoldsNothingElse: a policy of the cluster refuses one object. Everything else is applied, and a condition
// names the object and quotes the policy, until the policy is gone.
func TestRefusedObjectHoldsNothingElse(t *testing.T) {
	t.Parallel()
	t.Run("updates of a role and a binding", func(t *testing.T) {
		env := newTestEnv(t)
		env.create(env.customResource())
		stop := env.startOperator()
		env.waitForConditions(allWell)
		stop()
		before := env.uids()
		change(env, env.customResource(), func(custom *operatorv1.ClusterCSIDriver) { custom.Spec.LogLevel = operatorv1.Debug })
		permitRole := env.refuse(admissionregistrationv1.Update, "ClusterRole", "efs-csi-provisioner")
		permitBinding := env.refuse(admissionregistrationv1.Update, "ClusterRoleBinding", "efs-csi-provisioner")

		env.startOperator()
		env.waitForWorkloads("the log level of Debug", func(found workloads) error {
			return found.onBoth(func(_ corev1.PodTemplateSpec, c corev1.Container) error { return argument(c, "--v=4") })
		})
		env.waitForRefusal("OperatorDegraded", "ClusterRole efs-csi-provisioner")
		env.waitForRefusal("OperatorDegraded", "ClusterRoleBinding efs-csi-provisioner")
		permitRole()
		permitBinding()
		env.waitForConditions(allWell)
		// A policy's refusal of an update differs from an immutable field.
		name := "ClusterRoleBinding efs-csi-provisioner"
		assert.Equalf(t, before[name], env.uids()[name], "UID of %s", name)
	})
	for _, tc := range []struct{ what, driver, kind, name, condition string }{
		{"a new StorageClass", "ebs", "StorageClass", "gp2-csi", "DriverStorageClassControllerDegraded"},
		{"the copy of the cloud's certificates", "efs", "ConfigMap", "efs-csi-cloud-ca", "OperatorDegraded"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			driver, err := registry.Get(tc.driver)
			require.NoError(t, err)
			env := newTestEnvWith(t, driver)
			permit := env.refuse(admissionregistrationv1.Create, tc.kind, tc.name)
			env.create(env.customResource())
			env.startOperator()
			env.waitUntilOnlyMissing(tc.kind + " " + tc.name)
			env.waitForRefusal(tc.condition, tc.name)
			permit()
			env.waitForConditions(allWell)
		})
	}
}

// TestRefusedObjectHoldsNoAdoption: a policy refuses that one object of the earlier operator is adopted. The others are
// adopted, the driver is updated, and a condition names the object. It is adopted once the policy is gone.
func TestRefusedObjectHoldsNoAdoption(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	unadopted := env.createUnadopted(env.createAPI())
	permit := env.refuse(admissionregistrationv1.Update, "CSIDriver", env.driver.CSIName)
	env.create(env.customResource())
	env.startOperator()
	env.waitForRefusal("OperatorDegraded", "CSIDriver "+env.driver.CSIName)
	custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{
		"Available": operatorv1.ConditionTrue, "Progressing": operatorv1.ConditionFalse, "Degraded": operatorv1.ConditionTrue})
	assert.Contains(t, condition(custom, "Degraded").Message, refusal, "Degraded says")
	adopted := func(ctx context.Context) error {
		var left []string
		for _, object := range unadopted {
			if err := env.Client().Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if object.GetLabels()["app.kubernetes.io/managed-by"] != env.driver.Operator.Name || len(object.GetOwnerReferences()) > 0 {
				left = append(left, object.GetKind())
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("not adopted: %q", left)
		}
		return nil
	}
	assert.ErrorContains(t, adopted(t.Context()), `["CSIDriver"]`, "want all objects but the CSIDriver adopted")
	permit()
	cluster.Eventually(t, limit, "the CSIDriver to be adopted", adopted)
	env.waitForConditions(allWell)
}

// TestRefusedDeletionHoldsNothingElse: a policy refuses the deletion of one object that nothing depends on. All others
// are deleted, including later ones, and a condition names the object.
func TestRefusedDeletionHoldsNothingElse(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.installDriver()
	const refused = "ClusterRole efs-csi-provisioner"
	permit := env.refuse(admissionregistrationv1.Delete, "ClusterRole", "efs-csi-provisioner")
	env.deleteCustomResource()
	cluster.Eventually(t, limit, "all other objects to be deleted", func(ctx context.Context) error {
		present, _, err := env.existing(ctx)
		if err != nil {
			return err
		}
		if !slices.Equal(present, []string{refused}) {
			return fmt.Errorf("there are: %q", present)
		}
		return nil
	})
	env.waitForRefusal("DriverUninstallControllerDegraded", refused)
	env.waitForRefusal("UninstallProgressing", refused)
	permit()
	env.waitUntilRemoved()
}

// TestRefusedFinalizerIsReported: a policy refuses that the operator adds its finalizer. Nothing of the driver may be created
// before. A condition quotes the policy, until the policy is gone.
func TestRefusedFinalizerIsReported(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	custom := env.customResource()
	env.create(custom)
	custom.SetGroupVersionKind(operatorv1.GroupVersion.WithKind("ClusterCSIDriver"))
	permit := admission.Refusal{Name: env.namespace, Operation: admissionregistrationv1.Update, Object: custom, Message: refusal}.Apply(t, env.Client())
	env.startOperator()
	env.waitForRefusal("ReconcileDegraded", "ClusterCSIDriver "+env.driver.CSIName)
	if present, _, err := env.existing(t.Context()); err != nil || len(present) > 0 {
		t.Errorf("before the finalizer, the operator has created %q (%v)", present, err)
	}
	permit()
	custom = env.waitForConditions(allWell)
	assert.Empty(t, condition(custom, env.driver.ConditionPrefix+"ReconcileDegraded"), "the policy is gone, and so is the condition")
}

// TestMissingAPIHoldsNothingElse: a cluster without the API of the monitoring gets the driver, which can be removed again.
func TestMissingAPIHoldsNothingElse(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	api := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "servicemonitors.monitoring.coreos.com"}}
	require.NoError(t, env.Client().Get(t.Context(), client.ObjectKeyFromObject(api), api))
	t.Cleanup(func() {
		again := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: api.Name, Annotations: api.Annotations}, Spec: api.Spec}
		cluster.Eventually(t, limit, "the API to be back", func(ctx context.Context) error {
			if err := env.Client().Create(ctx, again); client.IgnoreAlreadyExists(err) != nil {
				return err
			}
			_, _, err := env.existing(ctx)
			return err
		})
	})
	require.NoError(t, env.Client().Delete(t.Context(), api))
	cluster.Eventually(t, limit, "the API to be gone", env.Gone(api))
	env.installDriver()
	env.deleteCustomResource()
	cluster.Eventually(t, limit, "the ClusterCSIDriver to be gone", env.Gone(env.customResource()))
}

// waitForRefusal waits until a condition names an object, and quotes the policy that refuses it.
func (env *testEnv) waitForRefusal(conditionType, object string) {
	env.t.Helper()
	conditionType = env.driver.ConditionPrefix + conditionType
	cluster.Eventually(env.t, limit, "condition "+conditionType+" to name "+object, func(ctx context.Context) error {
		custom := env.customResource()
		if err := env.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		c := condition(custom, conditionType)
		if c.Status != operatorv1.ConditionTrue || !strings.Contains(c.Message, object) || !strings.Contains(c.Message, refusal) {
			return fmt.Errorf("it is %s: %s", c.Status, c.Message)
		}
		return nil
	})
}

// waitUntilOnlyMissing waits until all of the driver's objects exist, except the named ones.
func (env *testEnv) waitUntilOnlyMissing(names ...string) {
	env.t.Helper()
	cluster.Eventually(env.t, limit, fmt.Sprintf("all objects but %q", names), func(ctx context.Context) error {
		if _, missing, err := env.existing(ctx); err != nil || !slices.Equal(missing, names) {
			return errors.Join(err, fmt.Errorf("missing: %q", missing))
		}
		return nil
	})
}

// refuse has a policy refuse an operation on one of the driver's objects, until the test ends or permit is called.
func (env *testEnv) refuse(operation admissionregistrationv1.OperationType, kind, name string) (permit func()) {
	env.t.Helper()
	objects := env.objects()
	object := objects[slices.IndexFunc(objects, func(o client.Object) bool { return nameOf(o) == kind+" "+name })]
	policy := env.namespace + "-" + strings.ToLower(kind)
	return admission.Refusal{Name: policy, Operation: operation, Object: object, Message: refusal}.Apply(env.t, env.Client())
}
