package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/operator"
	"github.com/berth-csi/berth/test/cluster"
)

// TestADriverStaysWhereItIs: an operator that comes back in another namespace looks after the same driver,
// whether the ClusterCSIDriver tells it or the driver itself.
func TestADriverStaysWhereItIs(t *testing.T) {
	w := newWorld(t)
	w.create(w.customResource())
	stop := w.startOperator()
	w.waitForConditions(allWell)
	before := w.uids()
	for _, told := range []string{"the annotations", "what names its service accounts"} {
		stop()
		if told != "the annotations" {
			w.annotate(namespaceAnnotation, "null")
			w.annotate(namespaceUIDAnnotation, "null")
		}
		next := newWorld(t)
		next.home = w.home
		stop = next.startOperator()
		next.waitForRepair()
		custom := next.waitForConditions(allWell)
		if got := custom.Annotations[namespaceAnnotation]; got != w.home {
			t.Errorf("by %s: the annotation says %q, want %q", told, got, w.home)
		}
		if got := custom.Annotations["berth.dev/operator-namespace"]; got != next.namespace {
			t.Errorf("by %s: the annotation says that the operator is in namespace %q, want %q", told, got, next.namespace)
		}
		if diff := cmp.Diff(before, next.uids()); diff != "" {
			t.Errorf("by %s: UIDs of the driver's objects (-before +after):\n%s", told, diff)
		}
		for _, write := range next.writes() {
			if write.Namespace == next.namespace {
				t.Errorf("by %s: in its own namespace the operator did: %s %s %s", told, write.Verb, write.Resource, write.Name)
			}
		}
	}
}

// TestSeveralDrivers: a person is told of another operator's driver by what only administrators can write.
func TestSeveralDrivers(t *testing.T) {
	w := newWorld(t)
	other := w.createForeignBinding(w.Namespace(t))
	w.create(w.customResource())
	w.startOperator()
	w.waitForReason(w.driver.ConditionPrefix+"DriverNamespaceDegraded", "SeveralDrivers")
	custom := w.waitForConditions(map[string]operatorv1.ConditionStatus{
		"Available": operatorv1.ConditionTrue, "Progressing": operatorv1.ConditionFalse, "Degraded": operatorv1.ConditionTrue})
	for _, word := range []string{"namespace " + w.home, "ClusterRoleBinding " + other.Name, other.Subjects[0].Namespace + "/" + other.Subjects[0].Name} {
		if got := condition(custom, "Degraded"); !strings.Contains(got.Message, word) {
			t.Errorf("condition Degraded says %q, want %q in it", got.Message, word)
		}
	}
	for _, write := range w.writes() {
		if write.Namespace == other.Subjects[0].Namespace || write.Name == other.Name {
			t.Errorf("to the other driver the operator did: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	if err := w.Client().Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.waitForConditions(allWell)
}

// createForeignBinding leaves what gives permissions to a driver that is not like ours.
func (w *world) createForeignBinding(namespace string) *rbacv1.ClusterRoleBinding {
	w.t.Helper()
	trace := w.driver.History.Traces[0]
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: trace.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: trace.Accounts[0]}},
	}
	w.create(binding)
	w.t.Cleanup(func() { _ = w.Client().Delete(context.Background(), binding) })
	return binding
}

// TestSeveralNamespaces: where a driver is that two namespaces have accounts of, an administrator says.
func TestSeveralNamespaces(t *testing.T) {
	w := newWorld(t)
	w.home = w.Namespace(t)
	second := w.Namespace(t)
	w.createRelics(nil)
	w.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-provisioner"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "efs-csi-provisioner"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: second, Name: "efs-csi-controller-sa"}},
	})
	w.create(w.customResource())
	w.startOperator()
	degraded := w.driver.ConditionPrefix + "DriverNamespaceDegraded"
	w.waitForReason(degraded, "SeveralNamespaces")
	custom := w.waitForConditions(map[string]operatorv1.ConditionStatus{"Degraded": operatorv1.ConditionTrue})
	for _, word := range []string{"SecurityContextConstraints efs-csi-scc", w.home + "/efs-csi-sa", "ClusterRoleBinding efs-csi-provisioner", second + "/efs-csi-controller-sa", namespaceAnnotation + "="} {
		if got := condition(custom, degraded); !strings.Contains(got.Message, word) {
			t.Errorf("condition %s says %q, want %q in it", degraded, got.Message, word)
		}
	}
	for _, write := range w.writes() {
		if write.Resource != "clustercsidrivers" || write.Subresource != "status" {
			t.Errorf("before the namespace is known the operator did: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	w.waitForEvent("SeveralNamespaces", w.home)
	w.annotate(namespaceAnnotation, fmt.Sprintf("%q", w.home))
	w.waitForConditions(allWell)
	if got := w.namespaceUID(w.home); custom.Annotations[namespaceUIDAnnotation] != "" || w.recordedUID() != string(got) {
		t.Errorf("the recorded UID is %q, want %s", w.recordedUID(), got)
	}
}

// recordedUID is that of the driver's namespace in the ClusterCSIDriver.
func (w *world) recordedUID() string {
	w.t.Helper()
	custom := w.customResource()
	if err := w.Client().Get(w.t.Context(), client.ObjectKeyFromObject(custom), custom); err != nil {
		w.t.Fatal(err)
	}
	return custom.Annotations[namespaceUIDAnnotation]
}

// TestAnOperatorThatIsStillActiveKeepsTheDriver: the lock excludes operators of one namespace. One in the
// namespace of the driver keeps us from the driver, and from its API, until its pod is gone.
func TestAnOperatorThatIsStillActiveKeepsTheDriver(t *testing.T) {
	w := awayFromHome(t)
	w.createRelics(nil)
	old := w.createLockedOperator()

	served := make(chan struct{})
	w.startOperator(operator.APIController{Run: func(ctx context.Context, _ *rest.Config) error {
		close(served)
		<-ctx.Done()
		return nil
	}})
	w.create(w.customResource())
	w.waitForReason(w.driver.ConditionPrefix+"DriverNamespaceDegraded", "OtherOperatorActive")
	custom := w.waitForConditions(map[string]operatorv1.ConditionStatus{"Degraded": operatorv1.ConditionTrue})
	if got := condition(custom, "Degraded"); !strings.Contains(got.Message, old.Namespace+"/"+old.Name) {
		t.Errorf("condition Degraded says %q, want the pod of the other operator in it", got.Message)
	}
	waits := w.driver.ConditionPrefix + "OperatorLockDegraded"
	w.waitForReason(waits, "WaitingForLock")
	if got, _ := metric(t, "berth_operator_waiting_for_lock", map[string]string{"driver": w.driver.CSIName, "namespace": w.home}); got != 1 {
		t.Errorf("berth_operator_waiting_for_lock is %v while the operator waits, want 1", got)
	}
	if len(custom.Finalizers) > 0 || custom.Annotations[namespaceAnnotation] != "" {
		t.Errorf("the ClusterCSIDriver is claimed already: finalizers %q, annotations %v", custom.Finalizers, custom.Annotations)
	}
	for _, write := range w.writes() {
		if write.Resource != "clustercsidrivers" || write.Subresource != "status" {
			t.Errorf("beside another operator ours did: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	select {
	case <-served:
		t.Error("the companion runs beside another operator")
	default:
	}

	if err := w.Client().Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	w.waitForConditions(allWell)
	<-served
	w.waitForReason(waits, "")
	if got, found := metric(t, "berth_operator_waiting_for_lock", map[string]string{"driver": w.driver.CSIName, "namespace": w.home}); got != 0 || !found {
		t.Errorf("berth_operator_waiting_for_lock is %v when nobody waits (found: %v), want 0", got, found)
	}
}

// createLockedOperator creates a pod that holds the lock, as the operator library has it: the pod owns the
// ConfigMap.
func (w *world) createLockedOperator() *corev1.Pod {
	return w.createLockedOperatorAs(w.Client(), w.home)
}

// createLockedOperatorAs is createLockedOperator for anybody's client, and any namespace.
func (w *world) createLockedOperatorAs(c client.Client, namespace string) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "aws-efs-operator-5c9b6-x7k2p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "aws-efs-operator", Image: "quay.io/app-sre/aws-efs-operator:0.0.8"}}},
	}
	if err := c.Create(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
	if err := c.Create(w.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: w.driver.Operator.Lock,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}}); err != nil {
		w.t.Fatal(err)
	}
	w.waitUntilRunning(pod)
	return pod
}

// annotate sets an annotation of the ClusterCSIDriver, or removes it if the value is "null".
func (w *world) annotate(key, jsonValue string) {
	w.t.Helper()
	w.patchCustomResource(fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, jsonValue))
}

// waitForRepair changes an object of the driver and waits until the operator has put it right: it is at work.
func (w *world) waitForRepair() {
	w.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.home, Name: "efs-csi-leader-election"}}
	change(w, role, func(r *rbacv1.Role) { r.Rules = nil })
	cluster.Eventually(w.t, limit, "the operator to repair a Role", func(ctx context.Context) error {
		if err := w.Client().Get(ctx, client.ObjectKeyFromObject(role), role); err != nil {
			return err
		}
		if len(role.Rules) == 0 {
			return fmt.Errorf("it has no rules")
		}
		return nil
	})
}
