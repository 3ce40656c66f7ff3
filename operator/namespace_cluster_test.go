package operator_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator"
)

// TestDriverStaysInItsNamespace: an operator that is reinstalled in another namespace manages the same driver, whether it
// finds it by the ClusterCSIDriver or by the driver's own objects.
func TestDriverStaysInItsNamespace(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.create(env.customResource())
	stop := env.startOperator()
	env.waitForConditions(allWell)
	before := env.uids()
	for _, evidence := range []string{"the annotations", "the traces"} {
		stop()
		if evidence != "the annotations" {
			env.annotate(namespaceAnnotation, "null")
			env.annotate(namespaceUIDAnnotation, "null")
		}
		next := newTestEnv(t)
		next.home = env.home
		stop = next.startOperator()
		next.waitForRepair()
		custom := next.waitForConditions(allWell)
		assert.EqualValuesf(t, env.home, custom.Annotations[namespaceAnnotation], "by %s: the annotation says", evidence)
		assert.Equalf(t, next.namespace, custom.Annotations["berth.dev/operator-namespace"], "by %s: the annotation says that the operator is in namespace", evidence)
		assert.Emptyf(t, cmp.Diff(before, next.uids()), "by %s: UIDs of the driver's objects (-before +after)", evidence)
		for _, write := range next.writes() {
			assert.NotEqualf(t, next.namespace, write.Namespace, "by %s: namespace of the operator's request: %s %s %s", evidence, write.Verb, write.Resource, write.Name)
		}
	}
}

// TestDriverLeavesANamespaceThatIsGone: the namespace of an operator and its driver is deleted, and the ClusterCSIDriver
// stays. An operator in another namespace installs the driver there, and nothing of it is left anywhere else.
func TestDriverLeavesANamespaceThatIsGone(t *testing.T) {
	t.Parallel()
	before := newTestEnv(t)
	before.create(before.customResource())
	stop := before.startOperator()
	custom := before.waitForConditions(allWell)
	uid := custom.UID
	stop()
	next := newTestEnv(t)
	before.deleteNamespace(before.namespace)

	next.startOperator()
	custom = next.waitUntilInstalled()
	assert.Equal(t, uid, custom.UID, "UID of the ClusterCSIDriver")
	next.waitForEvent("NamespaceGone", before.namespace)
	next.checkNothingFor(before.namespace)
	sets := &appsv1.DaemonSetList{}
	require.NoError(t, next.Client().List(t.Context(), sets))
	for _, set := range sets.Items {
		assert.Equalf(t, next.namespace, set.Namespace, "namespace of DaemonSet %s", set.Name)
	}
	next.deleteCustomResource()
	next.waitUntilRemoved()
}

// waitUntilInstalled waits until the ClusterCSIDriver records that the driver is in its namespace, and all of its objects
// are there and work.
func (env *testEnv) waitUntilInstalled() *operatorv1.ClusterCSIDriver {
	env.t.Helper()
	custom := env.customResource()
	cluster.Eventually(env.t, limit, "the driver in namespace "+env.home, func(ctx context.Context) error {
		if err := env.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		if name, uid := custom.Annotations[namespaceAnnotation], custom.Annotations[namespaceUIDAnnotation]; name != env.home || uid != string(env.namespaceUID(env.home)) {
			return fmt.Errorf("the ClusterCSIDriver records namespace %s with UID %s", name, uid)
		}
		_, missing, err := env.existing(ctx)
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("objects are missing: %q", missing)
		}
		return err
	})
	return env.waitForConditions(allWell)
}

// TestOtherDriver: while another operator's driver is in the cluster, the operator writes nothing but conditions, whatever
// the ClusterCSIDriver asks for. It finds that driver by objects that only administrators can write.
func TestOtherDriver(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	other := env.createForeignBinding(env.Namespace(t))
	custom := env.customResource()
	custom.Finalizers = env.driver.History.Finalizers[:2]
	custom.Spec.ObservedConfig.Raw = []byte(`{"targetconfig":{"theirs":"yes"}}`)
	env.create(custom)
	theirs := operatorv1.OperatorCondition{Type: "AWSEFSDriverNodeServiceControllerAvailable", Status: operatorv1.ConditionTrue,
		Reason: "AsExpected", LastTransitionTime: metav1.Now().Rfc3339Copy()}
	custom.Status.Conditions = []operatorv1.OperatorCondition{theirs}
	require.NoError(t, env.Client().Status().Update(t.Context(), custom))
	before := custom.DeepCopy()
	env.startOperator()
	degraded := env.driver.ConditionPrefix + "DriverNamespaceDegraded"
	stands := func(when string) {
		t.Helper()
		env.waitUntilObserved()
		env.waitForReason(degraded, "OtherDriver")
		custom = env.waitForConditions(map[string]operatorv1.ConditionStatus{"Degraded": operatorv1.ConditionTrue})
		for _, word := range []string{"ClusterRoleBinding " + other.Name, other.Subjects[0].Namespace + "/" + other.Subjects[0].Name, "docs/move/redhat-efs.md"} {
			assert.Containsf(t, condition(custom, "Degraded").Message, word, "%s: condition Degraded", when)
		}
		assert.Emptyf(t, cmp.Diff(theirs, condition(custom, theirs.Type)), "%s: the other operator's condition (-before +now)", when)
		assert.Emptyf(t, cmp.Diff(before.Finalizers, custom.Finalizers), "%s: finalizers (-before +now)", when)
		for _, write := range env.writes() {
			if write.Resource != "clustercsidrivers" || write.Subresource != "status" {
				t.Errorf("%s: beside the other driver the operator requested: %s %s %s", when, write.Verb, write.Resource, write.Name)
			}
		}
	}
	stands("Managed")
	env.waitForEvent("OtherDriver", other.Name)
	env.setManagementState(operatorv1.Removed)
	stands("Removed")
	env.setManagementState(operatorv1.Managed)
	stands("Managed again")

	// Once the other driver is removed, the operator takes over.
	require.NoError(t, env.Client().Delete(t.Context(), other))
	custom = env.waitForConditions(allWell)
	assert.Len(t, custom.Finalizers, 1, "finalizers: the operator's own")

	// The other operator comes back: it adds its finalizers, and the objects of its driver.
	env.createForeignBinding(other.Subjects[0].Namespace)
	env.patchCustomResource(fmt.Sprintf(`{"metadata":{"finalizers":[%q,%q]}}`, custom.Finalizers[0], before.Finalizers[0]))
	env.waitForReason(degraded, "OtherDriver")
	written := env.written.Load()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: "efs-csi-leader-election"}}
	change(env, role, func(r *rbacv1.Role) { r.Rules = nil })
	env.setManagementState(operatorv1.Removed)
	env.waitUntilObserved()
	env.waitForReason(degraded, "OtherDriver")
	assert.Equal(t, written, env.written.Load(), "the operator wrote to its driver while another one was there")
}

// createForeignBinding creates a binding for the service accounts of a foreign driver.
func (env *testEnv) createForeignBinding(namespace string) *rbacv1.ClusterRoleBinding {
	env.t.Helper()
	trace := env.driver.History.Traces[0]
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: trace.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: trace.Accounts[0]}},
	}
	env.create(binding)
	env.t.Cleanup(func() { _ = env.Client().Delete(context.Background(), binding) })
	return binding
}

// TestSeveralNamespaces: if two namespaces have service accounts of the driver, an administrator has to choose.
func TestSeveralNamespaces(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.home = env.Namespace(t)
	second := env.Namespace(t)
	env.createUnadopted(nil)
	env.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-provisioner"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "efs-csi-provisioner"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: second, Name: "efs-csi-controller-sa"}},
	})
	env.create(env.customResource())
	env.startOperator()
	degraded := env.driver.ConditionPrefix + "DriverNamespaceDegraded"
	env.waitForReason(degraded, "SeveralNamespaces")
	custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{"Degraded": operatorv1.ConditionTrue})
	for _, word := range []string{"SecurityContextConstraints efs-csi-scc", env.home + "/efs-csi-sa", "ClusterRoleBinding efs-csi-provisioner", second + "/efs-csi-controller-sa", namespaceAnnotation + "="} {
		assert.Containsf(t, condition(custom, degraded).Message, word, "condition %s", degraded)
	}
	for _, write := range env.writes() {
		if write.Resource != "clustercsidrivers" || write.Subresource != "status" {
			t.Errorf("before the namespace is known the operator requested: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	env.waitForEvent("SeveralNamespaces", env.home)
	env.annotate(namespaceAnnotation, fmt.Sprintf("%q", env.home))
	env.waitForConditions(allWell)
	if got := env.namespaceUID(env.home); custom.Annotations[namespaceUIDAnnotation] != "" || env.recordedUID() != string(got) {
		t.Errorf("the recorded UID is %q, want %s", env.recordedUID(), got)
	}
}

// recordedUID returns the UID of the driver's namespace that the ClusterCSIDriver records.
func (env *testEnv) recordedUID() string {
	env.t.Helper()
	custom := env.customResource()
	require.NoError(env.t, env.Client().Get(env.t.Context(), client.ObjectKeyFromObject(custom), custom))
	return custom.Annotations[namespaceUIDAnnotation]
}

// TestActiveOperatorKeepsTheDriver: the lock excludes only operators in one namespace. An operator in the driver's
// namespace keeps the driver and its APIs until its pod is gone.
func TestActiveOperatorKeepsTheDriver(t *testing.T) {
	t.Parallel()
	env := inOtherNamespace(t)
	env.createUnadopted(nil)
	old := env.createLockedOperator()

	served := make(chan struct{})
	env.startOperator(operator.APIController{Run: func(ctx context.Context, _ *rest.Config) error {
		close(served)
		<-ctx.Done()
		return nil
	}})
	env.create(env.customResource())
	env.waitForReason(env.driver.ConditionPrefix+"DriverNamespaceDegraded", "OtherOperatorActive")
	custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{"Degraded": operatorv1.ConditionTrue})
	assert.Contains(t, condition(custom, "Degraded").Message, old.Namespace+"/"+old.Name, "condition Degraded, about the pod of the other operator")
	waits := env.driver.ConditionPrefix + "OperatorLockDegraded"
	env.waitForReason(waits, "WaitingForLock")
	waiting, _ := env.metric("berth_operator_waiting_for_lock", map[string]string{"namespace": env.home})
	assert.EqualValues(t, 1, waiting, "berth_operator_waiting_for_lock while the operator waits")
	if len(custom.Finalizers) > 0 || custom.Annotations[namespaceAnnotation] != "" {
		t.Errorf("the finalizer was added already: finalizers %q, annotations %v", custom.Finalizers, custom.Annotations)
	}
	for _, write := range env.writes() {
		if write.Resource != "clustercsidrivers" || write.Subresource != "status" {
			t.Errorf("beside another operator ours requested: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	select {
	case <-served:
		t.Error("the API controller runs beside another operator")
	default:
	}

	require.NoError(t, env.Client().Delete(t.Context(), old))
	env.waitForConditions(allWell)
	<-served
	env.waitForReason(waits, "")
	if got, found := env.metric("berth_operator_waiting_for_lock", map[string]string{"namespace": env.home}); got != 0 || !found {
		t.Errorf("berth_operator_waiting_for_lock is %v after the wait (found: %v), want 0", got, found)
	}
}

// createLockedOperator creates a pod that holds the lock, as operator-lib does: the pod owns the ConfigMap.
func (env *testEnv) createLockedOperator() *corev1.Pod {
	return env.createLockedOperatorAs(env.Client(), env.home)
}

// createLockedOperatorAs is createLockedOperator with any client, in any namespace.
func (env *testEnv) createLockedOperatorAs(c client.Client, namespace string) *corev1.Pod {
	env.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "aws-efs-operator-5c9b6-x7k2p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "aws-efs-operator", Image: "quay.io/app-sre/aws-efs-operator:0.0.8"}}},
	}
	require.NoError(env.t, c.Create(env.t.Context(), pod))
	require.NoError(env.t, c.Create(env.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: env.driver.Operator.Lock,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}}))
	env.waitUntilRunning(pod)
	return pod
}

// annotate sets an annotation of the ClusterCSIDriver, or removes it if the value is "null".
func (env *testEnv) annotate(key, jsonValue string) {
	env.t.Helper()
	env.patchCustomResource(fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, jsonValue))
}

// waitForRepair changes an object of the driver and waits until the operator has repaired it.
func (env *testEnv) waitForRepair() {
	env.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: "efs-csi-leader-election"}}
	change(env, role, func(r *rbacv1.Role) { r.Rules = nil })
	env.Await(env.t, limit, "the operator to repair a Role", role, func() error {
		if len(role.Rules) == 0 {
			return fmt.Errorf("it has no rules")
		}
		return nil
	})
}
