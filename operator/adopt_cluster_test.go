package operator_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/test/community"
)

// TestAdoption covers the whole life of a driver that the community operator installed: it is adopted in place, managed,
// and removed.
func TestAdoption(t *testing.T) {
	t.Parallel()
	t.Run("in the operator's namespace", func(t *testing.T) { testAdoption(t, newTestEnv(t), 0, false) })
	t.Run("in another namespace", func(t *testing.T) { testAdoption(t, inOtherNamespace(t), 0, false) })
	t.Run("in a namespace that only the ClusterCSIDriver names", func(t *testing.T) { testAdoption(t, inOtherNamespace(t), 0, true) })
	t.Run("by an operator that is restarted meanwhile", func(t *testing.T) { testAdoption(t, inOtherNamespace(t), 6, false) })
}

// TestAdoptionRetriesAConflict: another client, such as the DaemonSet controller, writes an object just before it is
// adopted. The operator retries that one write, does not start a new cycle, and counts each adopted object once.
func TestAdoptionRetriesAConflict(t *testing.T) {
	t.Parallel()
	env := inOtherNamespace(t)
	unadopted := env.createUnadopted(env.createAPI())
	cfg := env.ServiceAccountConfig(t, env.namespace, "operator")
	var patches atomic.Int32
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return fault.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/daemonsets/efs-csi-node") && patches.Add(1) == 1 {
				set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: "efs-csi-node"}}
				if err := env.Client().Patch(r.Context(), set, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"example.com/other":"faster"}}}`))); err != nil {
					t.Error(err)
				}
			}
			return next.RoundTrip(r)
		})
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- env.operate(ctx, cfg) }()
	defer func() {
		stop()
		assert.NoError(t, <-done)
	}()
	env.create(env.customResource())
	env.waitForConditions(allWell)
	assert.GreaterOrEqual(t, patches.Load(), int32(2), "how often the DaemonSet was patched, with a retry")
	if adopted, _ := env.metric("berth_adopted_objects_total", nil); adopted != float64(len(unadopted)) {
		t.Errorf("berth_adopted_objects_total is %v, want %d", adopted, len(unadopted))
	}
	watches := 0
	for _, event := range env.requests() {
		if event.Verb == "watch" && event.Resource == "csidrivers" {
			watches++
		}
	}
	assert.Equal(t, 1, watches, "how often the operator started to watch the CSIDriver")
}

// inOtherNamespace returns an environment in which the driver is not in the operator's namespace.
func inOtherNamespace(t *testing.T) *testEnv {
	env := newTestEnv(t)
	env.home = env.Namespace(t)
	return env
}

func testAdoption(t *testing.T, env *testEnv, restarts int, named bool) {
	env.makeWorkersOfAllNodes()
	api := env.createAPI()
	unadopted := env.createUnadopted(api)
	shared := env.createShare()
	before := map[string]*unstructured.Unstructured{}
	for _, object := range unadopted {
		before[object.GetKind()] = object.DeepCopy()
	}
	nodes := env.nodePods()
	require.Lenf(t, nodes, 3, "the old driver has %d ready pods, want one on each of the 3 nodes", len(nodes))
	ofDriver := client.InNamespace(env.home)
	endPods := env.Record(t, &corev1.PodList{}, ofDriver, client.MatchingLabels{"app": "efs-csi-node"})
	endDaemonSets := env.Record(t, &appsv1.DaemonSetList{}, ofDriver)

	custom := env.customResource()
	custom.Finalizers = env.driver.History.Finalizers
	if named {
		scc := unadopted[slices.IndexFunc(unadopted, func(r *unstructured.Unstructured) bool { return r.GetKind() == "SecurityContextConstraints" })]
		require.NoError(t, env.Client().Patch(t.Context(), scc, client.RawPatch("application/merge-patch+json", []byte(`{"users":[]}`))))
		custom.Annotations = map[string]string{namespaceAnnotation: env.home}
	}
	env.create(custom)
	for range restarts {
		env.runUntilItWrites(func(custom *operatorv1.ClusterCSIDriver) bool {
			return condition(custom, "Available").Status == operatorv1.ConditionTrue
		})
	}
	stop := env.startOperator()
	custom = env.waitForConditions(allWell)

	// The objects are the same, but ours.
	checkInPlace(t, env, before)
	checkDaemonSetChanges(t, before["DaemonSet"], endDaemonSets())
	assert.Equal(t, 1, mostUnavailable(nodes, endPods()), "nodes without a driver at the worst moment: 10% of 3 nodes")
	for _, pod := range env.nodePods() {
		if slices.ContainsFunc(nodes, func(old corev1.Pod) bool { return old.UID == pod.UID }) {
			t.Errorf("pod %s on node %s belongs to the old driver", pod.Name, pod.Spec.NodeName)
		}
	}
	checkUnchanged(t, env, shared)

	// The adoption is recorded for the next operator, and in events.
	assert.Equal(t, []string{env.driver.Operator.Name + ".operator.openshift.io/uninstall"}, custom.Finalizers, "finalizers")
	assert.EqualValues(t, env.home, custom.Annotations["berth.dev/driver-namespace"], "the annotation says that the driver is in namespace")
	if restarts == 0 { // an operator that ends before it receives the response records nothing
		for _, object := range unadopted {
			env.waitForEvent("Adopted", object.GetKind()+" "+object.GetName())
		}
	}

	// Deleting the API of the old operator must not delete the driver.
	env.removeAPI(api, shared[0])
	env.waitForGarbageCollector()
	if _, missing, err := env.existing(t.Context()); err != nil || len(missing) > 0 {
		t.Errorf("these objects were deleted with the old operator's API: %q (%v)", missing, err)
	}

	if restarts > 0 {
		stop()
	}
	env.deleteCustomResource()
	for range restarts {
		env.runUntilItWrites(func(custom *operatorv1.ClusterCSIDriver) bool { return custom.UID == "" })
	}
	if restarts > 0 {
		env.startOperator()
	}
	env.waitUntilRemoved()
	for _, write := range env.writes() {
		if write.Namespace == env.namespace && env.namespace != env.home {
			t.Errorf("in its own namespace the operator requested: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	checkUnchanged(t, env, shared[1:]) // the volume and the claim; the SharedVolume was deleted with its API
}

// checkInPlace checks that the objects of the old driver were updated, not recreated.
func checkInPlace(t *testing.T, env *testEnv, before map[string]*unstructured.Unstructured) {
	t.Helper()
	resources := map[string]string{
		"DaemonSet": "daemonsets", "ServiceAccount": "serviceaccounts", "CSIDriver": "csidrivers",
		"StorageClass": "storageclasses", "SecurityContextConstraints": "securitycontextconstraints",
	}
	for kind, old := range before {
		now := old.DeepCopy()
		require.NoError(t, env.Client().Get(t.Context(), client.ObjectKeyFromObject(old), now))
		assert.Equalf(t, old.GetUID(), now.GetUID(), "UID of %s %s", kind, old.GetName())
		assert.Emptyf(t, now.GetOwnerReferences(), "owners of %s %s", kind, old.GetName())
		for i, write := range env.writesTo(resources[kind], old.GetName()) {
			if i == 0 && write.Verb != "patch" {
				t.Errorf("the first write to %s %s is: %s; want the patch that removes its owner", kind, old.GetName(), write.Verb)
			}
			if write.Verb != "patch" && (write.Verb != "update" || kind != "DaemonSet") {
				t.Errorf("to adopt %s %s the operator requested: %s", kind, old.GetName(), write.Verb)
			}
		}
		content := func(object *unstructured.Unstructured) map[string]any {
			object = object.DeepCopy()
			delete(object.Object, "metadata")
			delete(object.Object, "status")
			return object.Object
		}
		switch kind {
		case "CSIDriver", "StorageClass", "ServiceAccount":
			assert.Emptyf(t, cmp.Diff(content(old), content(now)), "%s %s changed, although it was up to date (-before +after)", kind, old.GetName())
			assert.Emptyf(t, env.events(kind+"Updated"), "%s %s was up to date, but the operator recorded", kind, old.GetName())
		case "SecurityContextConstraints":
			checkNarrowed(t, env, now)
		}
	}
}

// checkNarrowed checks that the SecurityContextConstraints admit only the driver's own service accounts, with only what a
// driver needs.
func checkNarrowed(t *testing.T, env *testEnv, scc *unstructured.Unstructured) {
	t.Helper()
	accounts := "system:serviceaccount:" + env.home + ":"
	got := map[string]any{}
	for _, field := range []string{"users", "groups", "allowHostIPC", "allowHostPID", "allowedCapabilities", "allowedUnsafeSysctls"} {
		got[field] = scc.Object[field]
	}
	want := map[string]any{
		"users":  []any{accounts + "efs-csi-sa", accounts + "efs-csi-controller-sa"},
		"groups": []any{}, "allowHostIPC": false, "allowHostPID": false, "allowedCapabilities": []any{}, "allowedUnsafeSysctls": []any{},
	}
	assert.Emptyf(t, cmp.Diff(want, got), "SecurityContextConstraints %s (-want +got)", scc.GetName())
}

// checkDaemonSetChanges checks all changes of the old DaemonSet: it first loses its owner, it keeps its selector, and its
// pods are replaced node by node.
func checkDaemonSetChanges(t *testing.T, old *unstructured.Unstructured, changes []watch.Event) {
	t.Helper()
	require.NotEmpty(t, changes, "changes of the DaemonSet")
	var last *appsv1.DaemonSet
	for _, change := range changes {
		last = change.Object.(*appsv1.DaemonSet)
		if change.Type != watch.Modified || last.UID != old.GetUID() {
			t.Errorf("DaemonSet %s, UID %s: %s", last.Name, last.UID, change.Type)
		}
		if last.Generation != old.GetGeneration() && len(last.OwnerReferences) > 0 {
			t.Errorf("in generation %d the DaemonSet is still owned by %v", last.Generation, last.OwnerReferences)
		}
	}
	selector, _, _ := unstructured.NestedStringMap(old.Object, "spec", "selector", "matchLabels")
	assert.Empty(t, cmp.Diff(&metav1.LabelSelector{MatchLabels: selector}, last.Spec.Selector), "selector of the DaemonSet (-before +after)")
	strategy := last.Spec.UpdateStrategy
	if strategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || strategy.RollingUpdate.MaxUnavailable.String() != "10%" {
		t.Errorf("update strategy of the DaemonSet is %v", strategy)
	}
}

// makeWorkersOfAllNodes makes all nodes workers, as in compact clusters.
func (env *testEnv) makeWorkersOfAllNodes() {
	env.t.Helper()
	nodes := &corev1.NodeList{}
	require.NoError(env.t, env.Client().List(env.t.Context(), nodes))
	const role = "node-role.kubernetes.io/worker"
	for _, node := range nodes.Items {
		if _, worker := node.Labels[role]; worker {
			continue
		}
		label := func(value string) error {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, role, value)
			return env.Client().Patch(context.Background(), &node, client.RawPatch("application/merge-patch+json", patch))
		}
		require.NoError(env.t, label(`""`))
		env.t.Cleanup(func() {
			assert.NoError(env.t, label("null"))
		})
	}
}

// createAPI creates the CustomResourceDefinition of SharedVolumes, which the community operator made the owner of all its
// objects.
func (env *testEnv) createAPI() client.Object {
	env.t.Helper()
	manifests, err := env.driver.Manifests(drivers.Values{Namespace: env.home, Image: func(env string) string { return env }})
	require.NoError(env.t, err)
	definitions := drivers.OfKind(manifests, "CustomResourceDefinition")
	at := slices.IndexFunc(definitions, func(m drivers.Manifest) bool { return strings.HasPrefix(m.Object.GetName(), "sharedvolumes.") })
	if at < 0 {
		env.t.Fatalf("of the %d definitions of driver %s, none is of SharedVolumes", len(definitions), env.driver.Name)
	}
	api := definitions[at].Object
	env.create(api)
	env.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		assert.NoError(env.t, client.IgnoreNotFound(env.Client().Delete(ctx, api)))
		assert.NoError(env.t, cluster.Until(ctx, "the API to be gone", env.Gone(api)))
	})
	return api
}

// createUnadopted creates the community operator's driver, and waits until it runs.
func (env *testEnv) createUnadopted(owner client.Object) []*unstructured.Unstructured {
	env.t.Helper()
	unadopted, err := community.Driver(env.home, owner)
	require.NoError(env.t, err)
	for _, object := range unadopted {
		env.create(object)
	}
	daemonSet := &appsv1.DaemonSet{}
	cluster.Eventually(env.t, limit, "the old driver to run", func(ctx context.Context) error {
		if err := env.Client().Get(ctx, client.ObjectKey{Namespace: env.home, Name: "efs-csi-node"}, daemonSet); err != nil {
			return err
		}
		if s := daemonSet.Status; s.DesiredNumberScheduled == 0 || s.NumberReady != s.DesiredNumberScheduled {
			return fmt.Errorf("%d of %d pods are ready", s.NumberReady, s.DesiredNumberScheduled)
		}
		return nil
	})
	return unadopted
}

// createShare creates a SharedVolume as the community operator leaves it, with its bound volume and claim. The operator
// must not touch them.
func (env *testEnv) createShare() []client.Object {
	env.t.Helper()
	shared, volume, claim := community.Share(env.Namespace(env.t), "sv0")
	status := shared.Status
	cluster.Eventually(env.t, limit, "SharedVolumes to be served", func(ctx context.Context) error {
		return env.Client().Create(ctx, shared)
	})
	shared.Status = status
	require.NoError(env.t, env.Client().Status().Update(env.t.Context(), shared))
	env.create(volume, claim)
	env.t.Cleanup(func() {
		env.removeVolume(volume)
		env.release(shared)
	})
	cluster.Eventually(env.t, limit, "the volume to be bound", func(ctx context.Context) error {
		for _, object := range []client.Object{volume, claim} {
			if err := env.Client().Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
		}
		if volume.Status.Phase != corev1.VolumeBound || claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("the volume is %s and the claim is %s", volume.Status.Phase, claim.Status.Phase)
		}
		return nil
	})
	return []client.Object{shared, volume, claim}
}

func checkUnchanged(t *testing.T, env *testEnv, objects []client.Object) {
	t.Helper()
	for _, object := range objects {
		now := object.DeepCopyObject().(client.Object)
		if err := env.Client().Get(t.Context(), client.ObjectKeyFromObject(object), now); err != nil {
			t.Error(err)
		} else if now.GetResourceVersion() != object.GetResourceVersion() {
			t.Errorf("%T %s changed (-before +after):\n%s", object, object.GetName(), cmp.Diff(object, now))
		}
	}
}

// removeFinalizers removes an object's finalizers, because no controller handles SharedVolumes in these tests.
func (env *testEnv) removeFinalizers(object client.Object) error {
	return env.Client().Patch(context.Background(), object, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
}

// removeAPI deletes the definition of SharedVolumes.
func (env *testEnv) removeAPI(api client.Object, shared client.Object) {
	env.t.Helper()
	require.NoError(env.t, env.removeFinalizers(shared))
	require.NoError(env.t, env.Client().Delete(env.t.Context(), api))
	cluster.Eventually(env.t, limit, "the old operator's API to be gone", env.Gone(api))
}

// nodePods returns the ready pods of the driver's DaemonSet.
func (env *testEnv) nodePods() []corev1.Pod {
	env.t.Helper()
	pods := &corev1.PodList{}
	require.NoError(env.t, env.Client().List(env.t.Context(), pods, client.InNamespace(env.home), client.MatchingLabels{"app": "efs-csi-node"}))
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !isReady(&pod) })
}

// runUntilItWrites runs an operator until it has written to an object of the driver, or until done returns true for the
// ClusterCSIDriver, which is empty if there is none.
func (env *testEnv) runUntilItWrites(done func(*operatorv1.ClusterCSIDriver) bool) {
	env.t.Helper()
	before := env.written.Load()
	stop := env.startOperator()
	defer stop()
	cluster.Eventually(env.t, limit, "the operator to write", func(ctx context.Context) error {
		custom := &operatorv1.ClusterCSIDriver{}
		if err := env.Client().Get(ctx, client.ObjectKey{Name: env.driver.CSIName}, custom); client.IgnoreNotFound(err) != nil {
			return err
		}
		if done(custom) || env.written.Load() > before {
			return nil
		}
		return fmt.Errorf("it has not")
	})
}

// waitForGarbageCollector waits until an object whose owner does not exist has been collected, and
// with it whatever was doomed before.
func (env *testEnv) waitForGarbageCollector() {
	env.t.Helper()
	doomed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: "doomed",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "never-was", UID: "7c9e6679-7425-40de-944b-e07fc1f90ae7"}}}}
	env.create(doomed)
	cluster.Eventually(env.t, limit, "the garbage collector to delete it", env.Gone(doomed))
}
