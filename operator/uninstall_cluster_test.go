package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// waitUntilRemoved waits until the ClusterCSIDriver and all of the driver's objects are gone, except objects that
// outlive it.
func (env *testEnv) waitUntilRemoved() {
	env.t.Helper()
	cluster.Eventually(env.t, limit, "the ClusterCSIDriver to be gone", env.Gone(env.customResource()))
	present, _, err := env.existing(env.t.Context())
	present = slices.DeleteFunc(present, func(name string) bool { return env.kept()[name] })
	require.NoError(env.t, err)
	assert.Empty(env.t, present, "objects that are left although the ClusterCSIDriver is gone")
}

func (env *testEnv) deleteCustomResource() {
	env.t.Helper()
	require.NoError(env.t, env.Client().Delete(env.t.Context(), env.customResource()))
}

func TestUninstallOrder(t *testing.T) {
	t.Parallel()
	forEachDriver(t, testUninstallOrder)
}

func testUninstallOrder(t *testing.T, env *testEnv) {
	custom := env.installDriver()
	assert.Equal(t, []string{env.driver.Operator.Name + ".operator.openshift.io/uninstall"}, custom.Finalizers, "finalizers")
	env.deleteCustomResource()
	env.waitUntilRemoved()
	env.checkOrderOfRemoval()
}

// checkOrderOfRemoval checks that each stage of the removal was complete, including pods, before the next one began, and
// that the finalizer was removed last.
func (env *testEnv) checkOrderOfRemoval() {
	env.t.Helper()
	stageOf := func(e cluster.AuditEvent) string {
		// A roll-out deletes pods, too, but not because their workload is gone.
		orphan := e.User == "system:serviceaccount:kube-system:generic-garbage-collector" && e.Verb == "delete" && e.Resource == "pods" && e.Namespace == env.home
		switch own := e.User == env.user; {
		case own && e.Verb == "patch" && e.Resource == "clustercsidrivers" && e.Subresource == "":
			// Whatever the response: the operator may see the deletion before it receives the response, and then
			// cancels the request.
			return "finalizer"
		case e.Code != http.StatusOK:
			return ""
		case orphan && env.madeBy("Deployment", e.Name):
			return "controller pods"
		case orphan && env.madeBy("DaemonSet", e.Name):
			return "node pods"
		case own && e.Verb == "delete" && (e.Resource == "deployments" || e.Resource == "daemonsets" || e.Resource == "credentialsrequests"):
			return e.Resource
		case own && e.Verb == "delete":
			return "objects"
		}
		return ""
	}
	var removal []cluster.AuditEvent
	first, last := map[string]int{}, map[string]int{}
	cluster.Eventually(env.t, limit, "the removal to be in the audit log", func(context.Context) error { // the audit log lags behind
		clear(first)
		clear(last)
		events := env.Audit(env.t)
		// A request can be in the log before the request that caused it, while the latter is still being answered.
		slices.SortStableFunc(events, func(a, b cluster.AuditEvent) int { return a.Received.Compare(b.Received) })
		// What happened before the deletion, such as a roll-out, or before the operator started, does not count.
		deleted := slices.IndexFunc(events, func(e cluster.AuditEvent) bool {
			return e.Verb == "delete" && e.Resource == "clustercsidrivers" && e.Name == env.driver.CSIName
		})
		started := slices.IndexFunc(events, func(e cluster.AuditEvent) bool { return e.User == env.user })
		removal = events[max(deleted, started, 0):]
		for i, event := range removal {
			stage := stageOf(event)
			if _, seen := first[stage]; !seen || stage == "finalizer" { // other fields are patched before
				first[stage] = i
			}
			last[stage] = i
		}
		if last["finalizer"] == 0 {
			return errors.New("no finalizer of the ClusterCSIDriver has been removed since its deletion")
		}
		return nil
	})
	request := func(i int) string {
		e := removal[i]
		return fmt.Sprintf("%s %s %s by %s at %s", e.Verb, e.Resource, e.Name, e.User, e.Received.Format(time.StampMicro))
	}
	order := []string{"deployments", "controller pods", "daemonsets", "node pods", "objects", "credentialsrequests", "finalizer"}
	for i, stage := range order {
		assert.NotZerof(env.t, last[stage], "%s: there is no such request in the audit log", stage)
		before := last
		if strings.HasSuffix(stage, " pods") { // of several workloads, one may be faster
			before = first
		}
		if i > 0 && before[order[i-1]] > first[stage] {
			env.t.Errorf("%s came before the last of %s: %s, and then %s", stage, order[i-1], request(first[stage]), request(before[order[i-1]]))
		}
	}
}

// madeBy reports, by its name, whether a pod belongs to one of the driver's workloads of a kind.
func (env *testEnv) madeBy(kind, pod string) bool {
	return slices.ContainsFunc(env.objects(), func(object client.Object) bool {
		return object.GetObjectKind().GroupVersionKind().Kind == kind && strings.HasPrefix(pod, object.GetName()+"-")
	})
}

// TestOperatorIsRemovedFirst: the driver keeps running, and a reinstalled operator reconciles what was changed meanwhile.
func TestOperatorIsRemovedFirst(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.create(env.customResource())
	stop := env.startOperator()
	env.waitForConditions(allWell)
	before := env.uids()
	stop()
	env.deleteCustomResource()

	env.waitForGarbageCollector()
	assert.Empty(t, cmp.Diff(before, env.uids()), "UIDs of the driver's objects after the operator was removed (-before +after)")
	env.waitForWorkloads("the driver to run", func(l workloads) error {
		if l.controller.Status.AvailableReplicas == 0 || l.node.Status.NumberAvailable != 3 {
			return fmt.Errorf("%d of the controller and %d of the nodes are available", l.controller.Status.AvailableReplicas, l.node.Status.NumberAvailable)
		}
		return nil
	})
	next := newTestEnv(t)
	next.home = env.home
	next.startOperator()
	next.waitUntilRemoved()
	next.checkOrderOfRemoval()
}

// TestFinalizersOfEarlierOperators: no other operator handles them, so ours removes the driver and then the finalizers.
func TestFinalizersOfEarlierOperators(t *testing.T) {
	t.Parallel()
	t.Run("keep the object until the driver is gone", func(t *testing.T) {
		env := newTestEnv(t)
		env.createUnadopted(nil)
		custom := env.customResource()
		custom.Finalizers = env.driver.History.Finalizers
		env.create(custom)
		env.deleteCustomResource()
		env.startOperator()
		env.waitUntilRemoved()
		writes := env.writes()
		if last := writes[len(writes)-1]; last.Resource != "clustercsidrivers" || last.Verb != "patch" {
			t.Errorf("the last write is: %s %s %s; want the one that removes the finalizer", last.Verb, last.Resource, last.Name)
		}
	})
	t.Run("are removed with an unmanaged object", func(t *testing.T) {
		env := newTestEnv(t)
		unadopted := env.createUnadopted(nil)
		custom := env.customResource()
		custom.Finalizers, custom.Spec.ManagementState = env.driver.History.Finalizers, operatorv1.Unmanaged
		env.create(custom)
		env.deleteCustomResource()
		env.startOperator()
		cluster.Eventually(t, limit, "the ClusterCSIDriver to be gone", env.Gone(env.customResource()))
		for _, object := range unadopted {
			assert.NoError(t, env.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object))
		}
	})
}

func TestRemovedAndManagedAgain(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.installDriver()

	env.setManagementState(operatorv1.Removed)
	env.waitForConditions(map[string]operatorv1.ConditionStatus{
		"Available": operatorv1.ConditionFalse, "Progressing": operatorv1.ConditionFalse, "Degraded": operatorv1.ConditionFalse})
	if present, _, err := env.existing(t.Context()); err != nil || len(present) > 0 {
		t.Errorf("Removed, but these objects are left: %q (%v)", present, err)
	}
	env.setManagementState(operatorv1.Managed)
	env.waitForConditions(allWell)
}

// TestUnmanagedIsLeftAlone: the operator creates and deletes no object of the driver then, whatever its kind.
func TestUnmanagedIsLeftAlone(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.installDriver()
	env.setManagementState(operatorv1.Unmanaged)
	env.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionUnknown})
	began := len(env.writes())
	for _, object := range env.objects() {
		require.NoError(t, env.Client().Delete(t.Context(), object))
		cluster.Eventually(t, limit, object.GetName()+" to be gone", env.Gone(object))
	}
	env.patchCustomResource(`{"spec":{"logLevel":"Debug"}}`)
	env.waitUntilObserved()
	for _, write := range env.writes()[began:] {
		assert.Equalf(t, "clustercsidrivers", write.Resource, "what the operator requested while Unmanaged: %s %s", write.Verb, write.Name)
	}
	env.setManagementState(operatorv1.Managed)
	env.waitForConditions(allWell)
	env.setManagementState(operatorv1.Unmanaged)
	env.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionUnknown})
	before := env.uids()
	env.deleteCustomResource()
	cluster.Eventually(t, limit, "the ClusterCSIDriver to be gone", env.Gone(env.customResource()))
	assert.Empty(t, cmp.Diff(before, env.uids()), "UIDs of the driver's objects (-Unmanaged +deleted while Unmanaged)")
}

func TestForeignObjectsStay(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.installDriver()
	env.setManagementState(operatorv1.Unmanaged)
	env.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionUnknown})

	foreign := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-sa", Namespace: env.namespace}}
	require.NoError(t, env.Client().Delete(t.Context(), foreign))
	env.create(foreign)
	env.setManagementState(operatorv1.Removed)
	custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionFalse, "Progressing": operatorv1.ConditionFalse})
	assert.Contains(t, condition(custom, env.driver.ConditionPrefix+"UninstallProgressing").Message, "ServiceAccount efs-csi-sa", "message about the foreign object")
	if present, _, err := env.existing(t.Context()); err != nil || !slices.Equal(present, []string{"ServiceAccount efs-csi-sa"}) {
		t.Errorf("objects left = %q (%v), want just the foreign one", present, err)
	}
}

func (env *testEnv) setManagementState(state operatorv1.ManagementState) {
	env.t.Helper()
	env.patchCustomResource(fmt.Sprintf(`{"spec":{"managementState":%q}}`, state))
}

func (env *testEnv) patchCustomResource(patch string) {
	env.t.Helper()
	require.NoError(env.t, env.Client().Patch(env.t.Context(), env.customResource(), client.RawPatch("application/merge-patch+json", []byte(patch))))
}

func (env *testEnv) waitForEvent(reason, text string) {
	env.t.Helper()
	cluster.Eventually(env.t, limit, "an event "+reason, func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := env.Client().List(ctx, events, client.InNamespace(env.namespace)); err != nil {
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
