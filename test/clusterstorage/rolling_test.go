package clusterstorage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/clusterstorage"
)

var allRolls = flag.Bool("all-rolls", false, "drain, restart and update the nodes of each platform, which takes minutes for each")

// TestRolling drains the nodes of a cluster one after the other, restarts them as an update of the nodes does, and
// updates the drivers. Meanwhile it records the conditions of the ClusterOperator, of Storage and of each
// ClusterCSIDriver, and checks the summarizing ones against openshift/api's definition: a drain or a restart is no
// progress ("Operators should not report Progressing only because DaemonSets owned by them are adjusting to a new node
// from cluster scaleup or a node rebooting from cluster upgrade"), and degrades nothing that comes back by itself.
// Nodes are process nodes: they only report the drivers' pods, and run the operators.
func TestRolling(t *testing.T) {
	t.Parallel()
	if !*allRolls {
		t.Skip("takes minutes for each platform: make prove SUITE=rolling")
	}
	for _, platform := range platforms() {
		t.Run(string(platform), func(t *testing.T) {
			t.Parallel()
			roll(t, platform)
		})
	}
}

func roll(t *testing.T, platform configv1.PlatformType) {
	l := newLife(t, platform)
	const v1, v2 = "4.22.1", "4.22.2"
	l.run(generation{version: v1})
	l.awaitSettled(v1)
	l.awaitRest()
	nodes := &corev1.NodeList{}
	require.NoError(t, l.Client().List(t.Context(), nodes))

	steady := course{"Available": "True", "Progressing": "False", "Degraded": "False"}
	for _, node := range nodes.Items {
		l.journal("drain of "+node.Name, steady, func() {
			l.drain(node.Name)
			l.kubectl("uncordon", node.Name)
			l.awaitPods()
		})
	}
	for _, node := range nodes.Items {
		l.journal("update of "+node.Name+": drain and restart", steady, func() {
			l.drain(node.Name)
			l.restart(node.Name)
			l.kubectl("uncordon", node.Name)
			l.awaitPods()
		})
	}
	for _, node := range nodes.Items {
		l.journal("restart of "+node.Name+" without a drain", steady, func() {
			l.restart(node.Name)
			l.awaitPods()
		})
	}
	l.journal("update of the operators and drivers", steady.with(course{"Progressing": "False True False"}), func() {
		l.run(generation{version: v2})
		l.awaitSettled(v2)
		l.awaitPods()
	})
	l.awaitSettled(v2)
	l.awaitRest()
	l.checkForbidden()
	l.end()
}

// drain drains a node like an administrator or the machine config operator: it evicts all pods except DaemonSets'.
func (l *life) drain(node string) {
	l.t.Helper()
	l.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout="+limit.String())
}

func (l *life) kubectl(args ...string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), limit)
	defer cancel()
	if output, err := l.Kubectl(ctx, args...).CombinedOutput(); err != nil {
		l.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

// restart stops a node until the cluster has noticed that, and starts it again.
func (l *life) restart(node string) {
	l.t.Helper()
	require.NoError(l.t, l.StopNode(node))
	l.awaitNode(node, corev1.ConditionUnknown)
	require.NoError(l.t, l.StartNode(node))
	l.awaitNode(node, corev1.ConditionTrue)
}

func (l *life) awaitNode(name string, ready corev1.ConditionStatus) {
	l.t.Helper()
	cluster.Eventually(l.t, limit, fmt.Sprintf("node %s to be Ready=%s", name, ready), func(ctx context.Context) error {
		node := &corev1.Node{}
		if err := l.Client().Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == ready {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", node.Status.Conditions)
	})
}

// awaitPods waits until all pods are ready, and Storage reports that the drivers' operators are available.
func (l *life) awaitPods() {
	l.t.Helper()
	cluster.Eventually(l.t, limit, "all pods to be ready", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := l.Client().List(ctx, pods); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.DeletionTimestamp != nil {
				return fmt.Errorf("pod %s is being deleted", pod.Name)
			}
			if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				return fmt.Errorf("pod %s on node %q is %s: %+v", pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.Status.Conditions)
			}
		}
		if len(pods.Items) == 0 {
			return errors.New("there are none")
		}
		storage := &operatorv1.Storage{}
		if err := l.Client().Get(ctx, client.ObjectKey{Name: "cluster"}, storage); err != nil {
			return err
		}
		for _, c := range storage.Status.Conditions {
			if strings.HasSuffix(c.Type, operatorv1.OperatorStatusTypeDegraded) && c.Status == operatorv1.ConditionTrue {
				return fmt.Errorf("the condition %s of Storage is True: %s", c.Type, c.Message)
			}
		}
		return nil
	})
}

// journal records and prints each change of a condition while something happens, and fails the test if the ClusterOperator or a
// ClusterCSIDriver takes another course by the conditions that want has.
func (l *life) journal(what string, want course, happens func()) {
	l.t.Helper()
	records := []client.ObjectList{&configv1.ClusterOperatorList{}, &operatorv1.StorageList{}, &operatorv1.ClusterCSIDriverList{}}
	var ends []func() []watch.Event
	for _, list := range records {
		ends = append(ends, l.Record(l.t, list))
	}
	happens()
	var told []statement
	for i, list := range records {
		told = append(told, statements(list)...)
		for _, event := range ends[i]() {
			told = append(told, statementsOf(event.Object.(client.Object))...)
		}
	}
	slices.SortStableFunc(told, func(a, b statement) int { return a.revision - b.revision })

	courses, last := map[string]course{}, map[string]statement{}
	var lines []string
	for _, s := range told {
		if courses[s.of] == nil {
			courses[s.of] = course{}
		}
		courses[s.of].follow(s.condition, s.status)
		key := s.of + " " + s.condition
		if before, known := last[key]; known && before.status != s.status {
			lines = append(lines, fmt.Sprintf("  %s %s %s: %s to %s, %s: %s", s.at, s.of, s.condition, before.status, s.status, s.reason, s.message))
		}
		last[key] = s
	}
	if len(lines) == 0 {
		lines = []string{"  no condition changed"}
	}
	l.t.Logf("%s:\n%s", what, strings.Join(lines, "\n"))
	for of, got := range courses {
		if strings.HasPrefix(of, "Storage ") {
			continue // its conditions are by component, and have no summary
		}
		for condition, want := range want {
			// One driver's update may end before another's has begun.
			if got[condition] != want && !(strings.HasPrefix(of, "ClusterCSIDriver ") && want == "False True False" && got[condition] == "False") {
				l.t.Errorf("%s: %s of %s was %q, want %q", what, condition, of, got[condition], want)
			}
		}
	}
}

// A statement is one condition of an object, at a revision of the cluster.
type statement struct {
	revision                               int
	of, condition, status, reason, message string
	at                                     string
}

func statements(list client.ObjectList) (all []statement) {
	switch list := list.(type) {
	case *configv1.ClusterOperatorList:
		for i := range list.Items {
			all = append(all, statementsOf(&list.Items[i])...)
		}
	case *operatorv1.StorageList:
		for i := range list.Items {
			all = append(all, statementsOf(&list.Items[i])...)
		}
	case *operatorv1.ClusterCSIDriverList:
		for i := range list.Items {
			all = append(all, statementsOf(&list.Items[i])...)
		}
	}
	return all
}

func statementsOf(object client.Object) (all []statement) {
	revision, err := strconv.Atoi(object.GetResourceVersion())
	if err != nil {
		panic(err)
	}
	operators := func(kind string, conditions []operatorv1.OperatorCondition) {
		for _, c := range conditions {
			all = append(all, statement{revision: revision, of: kind + " " + object.GetName(), condition: c.Type, status: string(c.Status),
				reason: c.Reason, message: c.Message, at: c.LastTransitionTime.Format("15:04:05")})
		}
	}
	switch object := object.(type) {
	case *configv1.ClusterOperator:
		if object.Name != clusterstorage.ClusterOperatorName {
			return nil
		}
		for _, c := range object.Status.Conditions {
			all = append(all, statement{revision: revision, of: "ClusterOperator " + object.Name, condition: string(c.Type), status: string(c.Status),
				reason: c.Reason, message: c.Message, at: c.LastTransitionTime.Format("15:04:05")})
		}
	case *operatorv1.Storage:
		operators("Storage", object.Status.Conditions)
	case *operatorv1.ClusterCSIDriver:
		operators("ClusterCSIDriver", object.Status.Conditions)
	}
	return all
}
