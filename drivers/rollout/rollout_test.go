package rollout

import (
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestDecide(t *testing.T) {
	old := func(node string) Pod { return Pod{Node: node, Generation: "1", Revision: "old", Ready: true} }
	updated := func(node string) Pod { return Pod{Node: node, Generation: "2", Revision: "new", Ready: true} }
	dead := func(p Pod) Pod { p.Ready = false; return p }
	ending := func(p Pod) Pod { p.Ending = true; return p }
	for _, tc := range []struct {
		name       string
		desired    int32
		status     int32 // how many pods are up to date, as the status says
		pods       []Pod
		notReady   []string
		want       Left
		annotation string
	}{
		{name: "complete", desired: 2, status: 2, pods: []Pod{updated("a"), updated("b")}},
		{name: "one to go", desired: 2, status: 1, pods: []Pod{updated("a"), old("b")}, want: Left{Outdated: 1}},
		{name: "one starts", desired: 2, status: 2, pods: []Pod{updated("a"), dead(updated("b"))}, want: Left{Unavailable: 1}},
		{name: "one ends", desired: 2, status: 1, pods: []Pod{updated("a"), ending(old("b"))}, want: Left{Outdated: 1, Unavailable: 1}},
		{name: "one is missing", desired: 2, status: 1, pods: []Pod{updated("a")}, want: Left{Outdated: 1, Unavailable: 1}},
		{name: "one has no node yet", desired: 2, status: 2, pods: []Pod{updated("a"), dead(updated(""))}, want: Left{Unavailable: 1}},
		{name: "a dead node has an old pod", desired: 2, status: 1, notReady: []string{"b"}, pods: []Pod{updated("a"), ending(dead(old("b")))}},
		{name: "a dead node has a new pod", desired: 2, status: 2, notReady: []string{"b"}, pods: []Pod{updated("a"), dead(updated("b"))}},
		{
			name: "a dead node was updated, and another was not: as many are left as nodes are dead", desired: 3, status: 2, notReady: []string{"c"},
			pods: []Pod{updated("a"), old("b"), dead(updated("c"))}, want: Left{Outdated: 1},
		},
		{name: "a node that is NotReady, but the driver is not on it", desired: 1, status: 1, notReady: []string{"b"}, pods: []Pod{updated("a")}},
		{
			name: "the template was changed back before the dead node was updated", desired: 3, status: 2, annotation: "3", notReady: []string{"c"},
			pods: []Pod{old("a"), old("b"), ending(dead(updated("c")))},
		},
		{
			name: "the template was changed back, and that is all to see", desired: 2, status: 1, annotation: "3", notReady: []string{"b"},
			pods: []Pod{old("a"), dead(updated("b"))}, want: Left{Outdated: 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.annotation == "" {
				tc.annotation = "2"
			}
			set := &appsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: tc.annotation}},
				Status:     appsv1.DaemonSetStatus{DesiredNumberScheduled: tc.desired, UpdatedNumberScheduled: tc.status},
			}
			assert.Equal(t, tc.want, decide(set, tc.pods, sets.New(tc.notReady...)), "left")
		})
	}
}
