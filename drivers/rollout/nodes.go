package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IsReady reports whether a node is ready. Only its kubelet and the control plane write this condition.
func IsReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// IsComplete reports whether a DaemonSet has an up-to-date, ready pod on each node, as its status says.
func IsComplete(set *appsv1.DaemonSet) bool {
	s := set.Status
	return s.ObservedGeneration >= set.Generation && s.UpdatedNumberScheduled >= s.DesiredNumberScheduled && s.NumberReady >= s.DesiredNumberScheduled
}

// NotReady returns the sorted names of the NotReady nodes that a DaemonSet selects. It reads all selected nodes from
// the API server.
func NotReady(ctx context.Context, reader client.Reader, set *appsv1.DaemonSet) ([]string, error) {
	var names []string
	for page := (&corev1.NodeList{}); ; {
		if err := reader.List(ctx, page, client.MatchingLabels(set.Spec.Template.Spec.NodeSelector), client.Limit(pageSize), client.Continue(page.Continue)); err != nil {
			return nil, fmt.Errorf("listing nodes: %w", err)
		}
		for _, node := range page.Items {
			if !IsReady(&node) {
				names = append(names, node.Name)
			}
		}
		if page.Continue == "" {
			slices.Sort(names)
			return names, nil
		}
	}
}

// maxNames is the largest number of nodes that a message names.
const maxNames = 10

// Names lists the names of nodes for a message, and counts the rest beyond maxNames.
func Names(nodes []string) string {
	if more := len(nodes) - maxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(nodes[:maxNames], ", "), more)
	}
	return strings.Join(nodes, ", ")
}
