package doctor

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers/rollout"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/listing"
)

// maxTroubles is the maximum number of pods' troubles in a result.
const maxTroubles = 3

// usual are reasons for which containers wait without a fault.
var usual = []string{"", "ContainerCreating", "PodInitializing"}

// pod holds the fields of a pod that are read.
type pod struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status corev1.PodStatus `json:"status"`
}

// trouble says why a pod does not start, or returns "" if that is not known.
func (p pod) trouble() string {
	where := "pod " + p.Metadata.Name
	if p.Spec.NodeName != "" {
		where += " on node " + p.Spec.NodeName
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s is not scheduled: %s", where, explained(c.Reason, c.Message))
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		waiting := c.State.Waiting
		if waiting == nil || slices.Contains(usual, waiting.Reason) {
			continue
		}
		text := fmt.Sprintf("container %s of %s: %s", c.Name, where, explained(waiting.Reason, waiting.Message))
		if last := c.LastTerminationState.Terminated; last != nil {
			text += fmt.Sprintf(" (it ended with exit code %d%s)", last.ExitCode, suffix(last.Message))
		}
		return text
	}
	return ""
}

// examineWorkload examines a workload, and its pods if they are not all available.
func (p *examinedDriver) examineWorkload(ctx context.Context, w workload, selector *metav1.LabelSelector) ([]findings.Check, error) {
	if w.isComplete() {
		return []findings.Check{w.judge(nil)}, nil
	}
	selected, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("selector of %s %s/%s: %w", w.kind, w.namespace, w.name, err)
	}
	var troubles []string
	more := 0
	if err := each(ctx, p.Cluster, corev1.SchemeGroupVersion, listing.List{Resource: "pods", Namespace: w.namespace, Labels: selected.String()}, func(of pod) error {
		switch trouble := of.trouble(); {
		case trouble == "":
		case len(troubles) < maxTroubles:
			troubles = append(troubles, trouble)
		default:
			more++
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if more > 0 {
		troubles = append(troubles, fmt.Sprintf("and %s", number(more, "more pod")))
	}
	return []findings.Check{w.judge(troubles)}, nil
}

// names lists the first names, and counts the others.
func names(all []string) string { return rollout.Names(all) }
