package operator_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/rollout"
	"github.com/berth-csi/berth/lab/cluster"
)

// TestNotReadyNodeHoldsNothing: a node dies, and its pod can be neither updated nor ended. In a cluster of this size, it is
// also all that the DaemonSet may have unavailable. The other nodes get the new driver, one after the other, and the adoption
// ends. A condition names the node.
func TestNotReadyNodeHoldsNothing(t *testing.T) {
	t.Parallel()
	env := inOtherNamespace(t)
	env.makeWorkersOfAllNodes()
	env.createUnadopted(nil)
	before := env.nodePods()
	node := env.createDeadNode()
	ofDriver := client.InNamespace(env.home)
	endPods := env.Record(t, &corev1.PodList{}, ofDriver, client.MatchingLabels{"app": "efs-csi-node"})
	endDaemonSets := env.Record(t, &appsv1.DaemonSetList{}, ofDriver)

	env.create(env.customResource())
	env.startOperator()
	env.waitForConditions(allWell)
	progressing := env.driver.ConditionPrefix + "DriverNodeServiceControllerProgressing"
	cluster.Eventually(t, limit, "a condition that names the node, and not all of its pods", func(ctx context.Context) error {
		custom := env.customResource()
		if err := env.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		c := condition(custom, progressing)
		if c.Status != operatorv1.ConditionFalse || !strings.Contains(c.Message, node) || strings.Contains(c.Message, before[0].Spec.NodeName) {
			return fmt.Errorf("condition %s is %s: %s", c.Type, c.Status, c.Message)
		}
		return nil
	})
	// What `berth switch apply` asks and says.
	set := &appsv1.DaemonSet{}
	require.NoError(t, env.Client().Get(t.Context(), client.ObjectKey{Namespace: env.home, Name: "efs-csi-node"}, set))
	if names, err := rollout.NotReady(t.Context(), env.Client(), set); !rollout.IsStable(set) || rollout.IsComplete(set) || err != nil || !slices.Equal(names, []string{node}) {
		t.Errorf("rollout complete on nodes that are ready: %v; on all: %v; NotReady are %q (%v), want true, false and %s",
			rollout.IsStable(set), rollout.IsComplete(set), names, err, node)
	}
	after := env.nodePods()
	assert.Lenf(t, after, len(before), "%d pods of the driver are ready, want %d", len(after), len(before))
	for _, pod := range after {
		if slices.ContainsFunc(before, func(old corev1.Pod) bool { return old.UID == pod.UID }) {
			t.Errorf("on node %s, which is ready, pod %s belongs to the old driver", pod.Spec.NodeName, pod.Name)
		}
	}
	assert.Equal(t, 1, mostUnavailable(before, endPods()), "ready nodes without a driver at the worst moment")
	var allowed []string
	for _, change := range endDaemonSets() {
		set := change.Object.(*appsv1.DaemonSet)
		if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.MaxUnavailable != nil {
			allowed = append(allowed, rolling.MaxUnavailable.String())
		}
	}
	allowed = slices.Compact(allowed)
	if i := slices.Index(allowed, "10%"); i >= 0 {
		allowed = allowed[i:] // without the old driver's records
	}
	assert.Equal(t, []string{"10%", "2", "10%"}, allowed, "the pods that may be unavailable")

	// The node is removed: there is nothing to name any more.
	env.removeNode(node)
	cluster.Eventually(t, limit, "the condition not to name the node", func(ctx context.Context) error {
		custom := env.customResource()
		if err := env.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		if c := condition(custom, progressing); strings.Contains(c.Message, node) || c.Status != operatorv1.ConditionFalse {
			return fmt.Errorf("it is %s: %s", c.Status, c.Message)
		}
		return nil
	})
}

// createDeadNode creates a node that dies once a pod of the driver's DaemonSet is on it. It is removed when the test ends.
func (env *testEnv) createDeadNode() string {
	env.t.Helper()
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("100")}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: env.home + "-dead", Labels: map[string]string{
			corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH, "node-role.kubernetes.io/worker": ""}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "example.com/for-one-test", Effect: corev1.TaintEffectNoSchedule}}},
	}
	ready := func(status corev1.ConditionStatus) {
		env.t.Helper()
		cluster.Eventually(env.t, limit, "the status of the node", func(ctx context.Context) error {
			if err := env.Client().Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
				return err
			}
			node.Status.Capacity, node.Status.Allocatable = capacity, capacity
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Test",
				LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
			return env.Client().Status().Update(ctx, node)
		})
	}
	env.create(node)
	env.t.Cleanup(func() { env.removeNode(node.Name) })
	ready(corev1.ConditionTrue)
	cluster.Eventually(env.t, limit, "a pod on the node", func(ctx context.Context) error {
		pods, err := env.podsOn(ctx, node.Name)
		if err == nil && len(pods) == 0 {
			return fmt.Errorf("there is none")
		}
		return err
	})
	ready(corev1.ConditionFalse)
	return node.Name
}

// removeNode deletes a node, and its pods, which no kubelet ends.
func (env *testEnv) removeNode(name string) {
	env.t.Helper()
	err := env.Client().Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	assert.NoError(env.t, client.IgnoreNotFound(err))
	cluster.Eventually(env.t, limit, "the pods of the node to be gone", func(ctx context.Context) error {
		pods, err := env.podsOn(ctx, name)
		if err != nil || len(pods) == 0 {
			return err
		}
		for _, pod := range pods {
			if err := env.Client().Delete(ctx, &pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		return fmt.Errorf("there are %d", len(pods))
	})
}

// podsOn returns the pods of the driver's namespace on a node.
func (env *testEnv) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := env.Client().List(ctx, pods, client.InNamespace(env.home), client.MatchingFields{"spec.nodeName": node})
	return pods.Items, err
}
