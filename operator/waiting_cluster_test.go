package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// TestUninstallWithDeadNode: the removal names the pods that it waits for, with their nodes. It waits for no pod that is
// being deleted on a node that is NotReady, neither one that uses a volume nor one of the driver's own. If it is forced,
// it waits for no pod that should have ended by now.
func TestUninstallWithDeadNode(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	clock := clocktesting.NewFakeClock(time.Now())
	env.clock = clock
	env.installDriver()
	dead := env.createDeadNode()
	var own, held *corev1.Pod // the driver's
	cluster.Eventually(t, limit, "a pod of the driver on the dead node", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := env.Client().List(ctx, pods, client.InNamespace(env.home), client.MatchingLabels{"app": "efs-csi-node"}); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			switch pod.Spec.NodeName {
			case dead:
				own = &pod
			case "worker-0":
				held = &pod
			}
		}
		if own == nil || held == nil {
			return fmt.Errorf("there is none among %d pods", len(pods.Items))
		}
		return nil
	})
	env.patchPod(held, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	t.Cleanup(func() {
		if err := env.Client().Patch(context.Background(), held, client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	user := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "user"},
		Spec: corev1.PodSpec{NodeName: dead, Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}},
			Volumes: []corev1.Volume{env.claimedVolume(env.namespace, "data")}},
	}
	env.create(user)
	env.waitUntilBound(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "data"}})
	user.Status.Phase, user.Status.StartTime = corev1.PodRunning, &user.CreationTimestamp // as its kubelet did
	require.NoError(t, env.Client().Status().Update(t.Context(), user))

	env.deleteCustomResource()
	env.waitForUninstallMessage(fmt.Sprintf("in use by 1 pod: %s/user on node %s, which is NotReady", env.namespace, dead))
	require.NoError(t, env.Client().Delete(t.Context(), user))
	stepUntil := func(what string, check func(context.Context) error) {
		t.Helper()
		cluster.Eventually(t, limit, what, func(ctx context.Context) error {
			clock.Step(time.Minute)
			return check(ctx)
		})
	}
	waiting := fmt.Sprintf("1 pod: %s/%s on node worker-0", env.home, held.Name)
	stepUntil("the removal to wait for one pod of the driver", func(context.Context) error {
		got := env.uninstallMessage()
		if !strings.Contains(got, waiting) {
			return fmt.Errorf("it says %q, want %q", got, waiting)
		}
		return nil
	})
	if err := env.Client().Get(t.Context(), client.ObjectKeyFromObject(user), user); err != nil || user.DeletionTimestamp == nil {
		t.Errorf("the pod on the dead node is not being deleted, so the removal did not have to pass it: %v", err)
	}
	env.annotate("berth.dev/force-removal", `"true"`)
	stepUntil("the ClusterCSIDriver to be gone", env.Gone(env.customResource()))
	env.waitUntilRemoved()
	env.waitForEvent("Removed", fmt.Sprintf("%s/%s on node %s", env.home, own.Name, dead))
}

func (env *testEnv) patchPod(pod *corev1.Pod, patch string) {
	env.t.Helper()
	require.NoError(env.t, env.Client().Patch(env.t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// uninstallMessage returns the message of the uninstall condition, "" if the ClusterCSIDriver is gone.
func (env *testEnv) uninstallMessage() string {
	env.t.Helper()
	custom := env.customResource()
	require.NoError(env.t, client.IgnoreNotFound(env.Client().Get(env.t.Context(), client.ObjectKeyFromObject(custom), custom)))
	return condition(custom, env.driver.ConditionPrefix+"UninstallProgressing").Message
}

// TestWaitingRemovalIsQuiet: while a pod uses a volume, the operator lists such pods from time to time, and not when a pod
// or an object of the driver changes. Each time it sends few requests.
func TestWaitingRemovalIsQuiet(t *testing.T) {
	t.Parallel()
	const most = 10 // requests
	env := newTestEnv(t)
	clock := clocktesting.NewFakeClock(time.Now())
	env.clock = clock
	env.installDriver()
	env.mountedVolume()
	second := env.createUser("second", corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}})
	env.waitUntilRunning(second)
	env.deleteCustomResource()
	env.waitForUninstallMessage("2 pods")
	next := func(text string) {
		t.Helper()
		clock.Step(5 * time.Second)
		env.waitForUninstallMessage(text)
	}
	require.NoError(t, env.Client().Delete(t.Context(), second))
	cluster.Eventually(t, limit, "the second pod to be gone", env.Gone(second))
	next("1 pod:") // whatever the removal began with is over

	before := len(env.observations())
	workloads := env.waitForWorkloads("they exist", func(workloads) error { return nil })
	third := env.createUser("third", second.Spec.Volumes[0])
	for i := range 100 { // more than a page
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: fmt.Sprint("bystander-", i)},
			Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/never"}},
				Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}}},
		}
		env.create(pod)
		change, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.com/change": fmt.Sprint(i)}}})
		require.NoError(t, err)
		if i%10 == 0 {
			require.NoError(t, env.Client().Patch(t.Context(), workloads.node, client.RawPatch("application/merge-patch+json", change)))
		}
	}
	env.waitUntilRunning(third)
	env.patchCustomResource(`{"spec":{"logLevel":"Debug"}}`)
	env.waitUntilObserved()
	if got := env.observations()[before:]; len(got) > 0 {
		t.Errorf("before the pause was over, there were %d requests, such as %q", len(got), got[:min(len(got), most)])
	}
	next("2 pods")
	if got := env.observations()[before:]; len(got) > most {
		t.Errorf("one observation took %d requests, want at most %d; the first ones: %q", len(got), most, got[:most])
	}
	require.NoError(t, env.Client().DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(env.namespace)))
	cluster.Eventually(t, limit, "the ClusterCSIDriver to be gone", func(ctx context.Context) error {
		clock.Step(time.Minute)
		return env.Gone(env.customResource())(ctx)
	})
	assert.NotEqual(t, before, len(env.observations()), "the audit log has none of the requests that removed the driver")
}

// observations returns the operator's requests, except watches and those that report: events, and the status and the metadata of
// the ClusterCSIDriver.
func (env *testEnv) observations() []string {
	var found []string
	for _, event := range env.requests() {
		about := []string{"events", "clustercsidrivers"}
		if event.Verb != "watch" && !slices.Contains(about, event.Resource) {
			found = append(found, event.Verb+" "+event.URI)
		}
	}
	return found
}
