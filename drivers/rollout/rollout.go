// Package rollout determines how far the rollout of a DaemonSet has progressed on the nodes that are ready. A pod on a NotReady node can
// be neither updated nor ended, and the status of the DaemonSet does not say which pods these are.
package rollout

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// StableGeneration is the annotation of a DaemonSet with the generation whose rollout is complete on all nodes that are
// ready. library-go reads and writes it, too.
const StableGeneration = "storage.openshift.io/stable-generation"

// IsStable reports whether the rollout of the current generation was once complete on all nodes that were ready at that
// time.
func IsStable(set *appsv1.DaemonSet) bool {
	return set.Annotations[StableGeneration] == fmt.Sprint(set.Generation)
}

// A Pod holds the required fields of a pod.
type Pod struct {
	// Node is the name of its node; "" before it has one.
	Node string
	// Generation and Revision are the labels by which the DaemonSet controller decides whether the pod is up to date.
	// One match is enough.
	Generation, Revision string
	// Ready and Ending say whether the pod is ready, and whether it is being deleted.
	Ready, Ending bool
}

// Left counts ready nodes on which the rollout is not complete.
type Left struct {
	// Outdated counts nodes without an up-to-date pod, Unavailable counts nodes without a ready pod.
	Outdated, Unavailable int
}

// Observe reads the pods of a DaemonSet, and returns the rest of its rollout.
func Observe(ctx context.Context, reader client.Reader, set *appsv1.DaemonSet, notReady sets.Set[string]) (Left, error) {
	pods, err := list(ctx, reader, set)
	if err != nil {
		return Left{}, fmt.Errorf("listing the pods of DaemonSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	return decide(set, pods, notReady), nil
}

// pageSize is the number of pods that are in memory at a time.
const pageSize = 500

func list(ctx context.Context, reader client.Reader, set *appsv1.DaemonSet) ([]Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, err
	}
	var pods []Pod
	for page := (&corev1.PodList{}); ; {
		if err := reader.List(ctx, page, client.InNamespace(set.Namespace), client.MatchingLabelsSelector{Selector: selector},
			client.Limit(pageSize), client.Continue(page.Continue)); err != nil {
			return nil, err
		}
		for _, pod := range page.Items {
			if metav1.IsControlledBy(&pod, set) {
				pods = append(pods, podOf(&pod))
			}
		}
		if page.Continue == "" {
			return pods, nil
		}
	}
}

func podOf(pod *corev1.Pod) Pod {
	p := Pod{
		Node: pod.Spec.NodeName, Ending: pod.DeletionTimestamp != nil,
		Generation: pod.Labels["pod-template-generation"], Revision: pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey],
	}
	for _, c := range pod.Status.Conditions {
		p.Ready = p.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	return p
}

// decide returns the rest of the rollout. A node that has no pod yet counts as ready.
func decide(set *appsv1.DaemonSet, pods []Pod, notReady sets.Set[string]) Left {
	current := revision(set, pods)
	nodes, updated, ready := sets.New[string](), sets.New[string](), sets.New[string]()
	for _, p := range pods {
		nodes.Insert(p.Node)
		if p.Revision == current && current != "" && !p.Ending {
			updated.Insert(p.Node)
		}
		if p.Ready && !p.Ending {
			ready.Insert(p.Node)
		}
	}
	counted := nodes.Difference(notReady)
	without := max(int(set.Status.DesiredNumberScheduled)-nodes.Len(), 0)
	return Left{
		Outdated:    counted.Difference(updated).Len() + without,
		Unavailable: counted.Difference(ready).Len() + without,
	}
}

// revision returns the current revision of a DaemonSet, which is not in its status; "" if it is unknown. Any pod that
// was created for the current template has this revision. If there is no such pod, the template was changed back to an
// earlier one that still has pods. In that case the current revision is the one whose number of pods equals the number
// of up-to-date pods in the status.
func revision(set *appsv1.DaemonSet, pods []Pod) string {
	generation, count := set.Annotations[appsv1.DeprecatedTemplateGeneration], map[string]int32{}
	for _, p := range pods {
		if p.Generation == generation && generation != "" {
			return p.Revision
		}
		count[p.Revision]++
	}
	var fitting []string
	for revision, n := range count {
		if n == set.Status.UpdatedNumberScheduled {
			fitting = append(fitting, revision)
		}
	}
	if len(fitting) != 1 {
		return ""
	}
	return fitting[0]
}
