package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster"
)

// waitUntilRemoved waits until the ClusterCSIDriver and all of the driver's objects are gone, but for those
// that outlive it.
func (w *world) waitUntilRemoved() {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "the ClusterCSIDriver to be gone", w.Gone(w.customResource()))
	present, _, err := w.existing(w.t.Context())
	present = slices.DeleteFunc(present, func(name string) bool { return w.kept()[name] })
	if err != nil || len(present) > 0 {
		w.t.Errorf("the ClusterCSIDriver is gone, but these objects are left: %q (%v)", present, err)
	}
}

func (w *world) deleteCustomResource() {
	w.t.Helper()
	if err := w.Client().Delete(w.t.Context(), w.customResource()); err != nil {
		w.t.Fatal(err)
	}
}

func TestUninstallGoesInOrder(t *testing.T) { forEachDriver(t, testUninstallGoesInOrder) }

func testUninstallGoesInOrder(t *testing.T, w *world) {
	custom := w.installDriver()
	if want := []string{w.driver.Operator.Name + ".operator.openshift.io/uninstall"}; !slices.Equal(custom.Finalizers, want) {
		t.Errorf("finalizers are %q, want just %q", custom.Finalizers, want)
	}
	w.deleteCustomResource()
	w.waitUntilRemoved()
	w.checkOrderOfRemoval()
}

// checkOrderOfRemoval checks that each part of the driver, its pods included, was gone before anything of
// the next was removed, and that the ClusterCSIDriver was let go in the end.
func (w *world) checkOrderOfRemoval() {
	w.t.Helper()
	stageOf := func(e cluster.AuditEvent) string {
		switch own := e.User == w.user; {
		case own && e.Verb == "patch" && e.Resource == "clustercsidrivers" && e.Subresource == "":
			// Whatever the answer: the operator may see the object go before it hears that it has let it go, and
			// gives up the request then.
			return "finalizer"
		case e.Code != http.StatusOK:
			return ""
		case e.Verb == "delete" && e.Resource == "pods" && e.Namespace == w.home && w.madeBy("Deployment", e.Name):
			return "controller pods"
		case e.Verb == "delete" && e.Resource == "pods" && e.Namespace == w.home && w.madeBy("DaemonSet", e.Name):
			return "node pods"
		case own && e.Verb == "delete" && (e.Resource == "deployments" || e.Resource == "daemonsets" || e.Resource == "credentialsrequests"):
			return e.Resource
		case own && e.Verb == "delete":
			return "objects"
		}
		return ""
	}
	first, last := map[string]int{}, map[string]int{}
	cluster.Eventually(w.t, limit, "the removal to be in the audit log", func(context.Context) error { // the API server shows what it has done before it logs it
		clear(first)
		clear(last)
		events := w.Audit(w.t)
		// What others did in the driver's place before is no matter.
		began := slices.IndexFunc(events, func(e cluster.AuditEvent) bool { return e.User == w.user })
		for i, event := range events[max(began, 0):] {
			stage := stageOf(event)
			if _, seen := first[stage]; !seen || stage == "finalizer" { // it was set once, too
				first[stage] = i
			}
			last[stage] = i
			if event.Verb == "delete" && event.Resource == "clustercsidrivers" {
				delete(last, "finalizer")
			}
		}
		if last["finalizer"] == 0 {
			return errors.New("no finalizer of the ClusterCSIDriver has been removed since its deletion")
		}
		return nil
	})
	order := []string{"deployments", "controller pods", "daemonsets", "node pods", "objects", "credentialsrequests", "finalizer"}
	for i, stage := range order {
		if last[stage] == 0 {
			w.t.Errorf("%s: there is no such request in the audit log", stage)
		}
		before := last
		if strings.HasSuffix(stage, " pods") { // of several workloads, one may be faster
			before = first
		}
		if i > 0 && before[order[i-1]] > first[stage] {
			w.t.Errorf("%s came before the last of %s", stage, order[i-1])
		}
	}
}

// madeBy tells by its name whether a pod is one of the driver's workloads of a kind.
func (w *world) madeBy(kind, pod string) bool {
	return slices.ContainsFunc(w.objects(), func(object client.Object) bool {
		return object.GetObjectKind().GroupVersionKind().Kind == kind && strings.HasPrefix(pod, object.GetName()+"-")
	})
}

// TestTheOperatorIsRemovedFirst: the driver goes on running, and an operator that comes back finishes what
// was asked for meanwhile.
func TestTheOperatorIsRemovedFirst(t *testing.T) {
	w := newWorld(t)
	w.create(w.customResource())
	stop := w.startOperator()
	w.waitForConditions(allWell)
	before := w.uids()
	stop()
	w.deleteCustomResource()

	w.waitForGarbageCollector()
	if diff := cmp.Diff(before, w.uids()); diff != "" {
		t.Errorf("UIDs of the driver's objects when the operator has gone (-before +after):\n%s", diff)
	}
	w.waitForWorkloads("the driver to run", func(l workloads) error {
		if l.controller.Status.AvailableReplicas == 0 || l.node.Status.NumberAvailable != 3 {
			return fmt.Errorf("%d of the controller and %d of the nodes are available", l.controller.Status.AvailableReplicas, l.node.Status.NumberAvailable)
		}
		return nil
	})
	next := newWorld(t)
	next.home = w.home
	next.startOperator()
	next.waitUntilRemoved()
	next.checkOrderOfRemoval()
}

// TestFinalizersOfEarlierOperators: nobody else serves them, so ours does what they were there for.
func TestFinalizersOfEarlierOperators(t *testing.T) {
	t.Run("keep the object until the driver is gone", func(t *testing.T) {
		w := newWorld(t)
		w.createRelics(nil)
		custom := w.customResource()
		custom.Finalizers = w.driver.History.Finalizers
		w.create(custom)
		w.deleteCustomResource()
		w.startOperator()
		w.waitUntilRemoved()
		writes := w.writes()
		if last := writes[len(writes)-1]; last.Resource != "clustercsidrivers" || last.Verb != "patch" {
			t.Errorf("the last write is: %s %s %s; want the one that lets the ClusterCSIDriver go", last.Verb, last.Resource, last.Name)
		}
	})
	t.Run("go with an object that nobody is to touch", func(t *testing.T) {
		w := newWorld(t)
		relics := w.createRelics(nil)
		custom := w.customResource()
		custom.Finalizers, custom.Spec.ManagementState = w.driver.History.Finalizers, operatorv1.Unmanaged
		w.create(custom)
		w.deleteCustomResource()
		w.startOperator()
		cluster.Eventually(t, limit, "the ClusterCSIDriver to be gone", w.Gone(w.customResource()))
		for _, relic := range relics {
			if err := w.Client().Get(t.Context(), client.ObjectKeyFromObject(relic), relic); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestRemovedAndManagedAgain(t *testing.T) {
	w := newWorld(t)
	w.installDriver()

	w.setManagementState(operatorv1.Removed)
	w.waitForConditions(map[string]operatorv1.ConditionStatus{
		"Available": operatorv1.ConditionFalse, "Progressing": operatorv1.ConditionFalse, "Degraded": operatorv1.ConditionFalse})
	if present, _, err := w.existing(t.Context()); err != nil || len(present) > 0 {
		t.Errorf("Removed, but these objects are left: %q (%v)", present, err)
	}
	w.setManagementState(operatorv1.Managed)
	w.waitForConditions(allWell)
}

// TestUnmanagedIsLeftAlone: no object of the driver is made or removed then, whatever its kind.
func TestUnmanagedIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.installDriver()
	w.setManagementState(operatorv1.Unmanaged)
	w.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionUnknown})
	began := len(w.writes())
	for _, object := range w.objects() {
		if err := w.Client().Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t, limit, object.GetName()+" to be gone", w.Gone(object))
	}
	w.patchCustomResource(`{"spec":{"logLevel":"Debug"}}`)
	w.waitUntilObserved()
	for _, write := range w.writes()[began:] {
		if write.Resource != "clustercsidrivers" {
			t.Errorf("Unmanaged, but the operator did: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	w.setManagementState(operatorv1.Managed)
	w.waitForConditions(allWell)
	w.setManagementState(operatorv1.Unmanaged)
	w.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionUnknown})
	before := w.uids()
	w.deleteCustomResource()
	cluster.Eventually(t, limit, "the ClusterCSIDriver to be gone", w.Gone(w.customResource()))
	if diff := cmp.Diff(before, w.uids()); diff != "" {
		t.Errorf("UIDs of the driver's objects (-Unmanaged +deleted while Unmanaged):\n%s", diff)
	}
}

func TestForeignObjectsStay(t *testing.T) {
	w := newWorld(t)
	w.installDriver()
	w.setManagementState(operatorv1.Unmanaged)
	w.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionUnknown})

	foreign := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-sa", Namespace: w.namespace}}
	if err := w.Client().Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.create(foreign)
	w.setManagementState(operatorv1.Removed)
	custom := w.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionFalse, "Progressing": operatorv1.ConditionFalse})
	if got := condition(custom, w.driver.ConditionPrefix+"UninstallProgressing"); !strings.Contains(got.Message, "ServiceAccount efs-csi-sa") {
		t.Errorf("message = %q, want it to name the foreign object", got.Message)
	}
	if present, _, err := w.existing(t.Context()); err != nil || !slices.Equal(present, []string{"ServiceAccount efs-csi-sa"}) {
		t.Errorf("objects left = %q (%v), want just the foreign one", present, err)
	}
}

func (w *world) setManagementState(state operatorv1.ManagementState) {
	w.t.Helper()
	w.patchCustomResource(fmt.Sprintf(`{"spec":{"managementState":%q}}`, state))
}

func (w *world) patchCustomResource(patch string) {
	w.t.Helper()
	if err := w.Client().Patch(w.t.Context(), w.customResource(), client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) waitForEvent(reason, text string) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "an event "+reason, func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := w.Client().List(ctx, events, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Reason == reason && strings.Contains(event.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("none of %d events is one", len(events.Items))
	})
}
