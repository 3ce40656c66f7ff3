package operator_test

import (
	"slices"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berth-csi/berth/lab/cluster"
)

// mostUnavailable returns the largest number of nodes that lost their ready pod at the same time.
func mostUnavailable(before []corev1.Pod, changes []watch.Event) int {
	ready := map[string]sets.Set[types.UID]{} // pods, by node
	note := func(pod *corev1.Pod, gone bool) {
		pods := ready[pod.Spec.NodeName]
		if pods == nil {
			pods = sets.New[types.UID]()
			ready[pod.Spec.NodeName] = pods
		}
		if !gone && isReady(pod) {
			pods.Insert(pod.UID)
		} else {
			pods.Delete(pod.UID)
		}
	}
	var nodes []string
	for _, pod := range before {
		note(&pod, false)
		if isReady(&pod) {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	worst := 0
	for _, change := range changes {
		note(change.Object.(*corev1.Pod), change.Type == watch.Deleted)
		without := 0
		for _, node := range nodes {
			if ready[node].Len() == 0 {
				without++
			}
		}
		worst = max(worst, without)
	}
	return worst
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// metric returns the value of one of the metrics of the operator that started last, summed up over all series with these
// labels, and whether there is any.
func (env *testEnv) metric(name string, labels map[string]string) (sum float64, found bool) {
	env.t.Helper()
	registry := env.metrics.Load()
	if registry == nil {
		return 0, false
	}
	families, err := (*registry).Gather()
	require.NoError(env.t, err)
	for _, family := range families {
		for _, m := range family.Metric {
			has := map[string]string{}
			for _, pair := range m.Label {
				has[pair.GetName()] = pair.GetValue()
			}
			matches := family.GetName() == name && has["driver"] == env.driver.CSIName
			for key, value := range labels {
				matches = matches && has[key] == value
			}
			if matches {
				found = true
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() // it is one of the two
			}
		}
	}
	return sum, found
}

// writesTo returns the operator's writes to objects of one name.
func (env *testEnv) writesTo(resource, name string) []cluster.AuditEvent {
	return slices.DeleteFunc(env.writes(), func(e cluster.AuditEvent) bool {
		return e.Resource != resource || e.Name != name && e.Name != ""
	})
}
