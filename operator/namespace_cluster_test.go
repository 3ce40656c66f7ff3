package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/community"
)

const namespaceAnnotation = "berth.dev/driver-namespace"

// TestADriverStaysWhereItIs: an operator that comes back in another namespace looks after the same driver,
// whether the ClusterCSIDriver tells it or the driver itself.
func TestADriverStaysWhereItIs(t *testing.T) {
	w := newWorld(t)
	w.create(w.customResource())
	stop := w.startOperator()
	w.waitForConditions(allWell)
	before := w.uids()
	for _, told := range []string{"the annotation", "the DaemonSet"} {
		stop()
		if told != "the annotation" {
			w.annotate(namespaceAnnotation, "null")
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

// TestSeveralDrivers: of several drivers one is looked after, and a person is asked to delete the others.
func TestSeveralDrivers(t *testing.T) {
	w := newWorld(t)
	w.home = w.Namespace(t)
	second := w.Namespace(t)
	if second < w.home { // the first by name is chosen
		w.home, second = second, w.home
	}
	w.createRelics(nil)
	other := w.createSecondDaemonSet(second)

	w.create(w.customResource())
	w.startOperator()
	w.waitForReason(w.driver.ConditionPrefix+"DriverNamespaceDegraded", "SeveralDrivers")
	custom := w.waitForConditions(map[string]operatorv1.ConditionStatus{
		"Available": operatorv1.ConditionTrue, "Progressing": operatorv1.ConditionFalse, "Degraded": operatorv1.ConditionTrue})
	for _, word := range []string{"namespace " + w.home, second + "/" + other.Name} {
		if got := condition(custom, "Degraded"); !strings.Contains(got.Message, word) {
			t.Errorf("condition Degraded says %q, want %q in it", got.Message, word)
		}
	}
	for _, write := range w.writes() {
		if write.Namespace == second {
			t.Errorf("to the other driver the operator did: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	if err := w.Client().Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.waitForConditions(allWell)
}

func (w *world) createSecondDaemonSet(namespace string) *appsv1.DaemonSet {
	w.t.Helper()
	objects, err := community.Driver(namespace, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	daemonSet := &appsv1.DaemonSet{}
	for _, object := range objects {
		if object.GetKind() == "DaemonSet" {
			w.create(object)
			daemonSet.Namespace, daemonSet.Name = object.GetNamespace(), object.GetName()
		}
	}
	return daemonSet
}

// TestAnOperatorThatIsStillActiveKeepsTheDriver: the lock excludes operators of one namespace. One in the
// namespace of the driver keeps us from the driver, and from its API, until its pod is gone.
func TestAnOperatorThatIsStillActiveKeepsTheDriver(t *testing.T) {
	w := awayFromHome(t)
	w.createRelics(nil)
	old := w.createLockedOperator()

	served := make(chan struct{})
	w.startOperator(func(ctx context.Context, _ *rest.Config) error {
		close(served)
		<-ctx.Done()
		return nil
	})
	w.create(w.customResource())
	w.waitForReason(w.driver.ConditionPrefix+"DriverNamespaceDegraded", "OtherOperatorActive")
	custom := w.waitForConditions(map[string]operatorv1.ConditionStatus{"Degraded": operatorv1.ConditionTrue})
	if got := condition(custom, "Degraded"); !strings.Contains(got.Message, old.Namespace+"/"+old.Name) {
		t.Errorf("condition Degraded says %q, want the pod of the other operator in it", got.Message)
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
}

// createLockedOperator creates a pod that holds the lock, as the operator library has it: the pod owns the
// ConfigMap.
func (w *world) createLockedOperator() *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.home, Name: "aws-efs-operator-5c9b6-x7k2p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "aws-efs-operator", Image: "quay.io/app-sre/aws-efs-operator:0.0.8"}}},
	}
	w.create(pod)
	w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.home, Name: w.driver.Operator.Lock,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}})
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
