package operator

import (
	"fmt"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/status"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
)

// summarized are the conditions that stand for all others of their kind, with the status that each
// of those has when all is well.
var summarized = []struct {
	conditionType string
	well          operatorv1.ConditionStatus
}{
	{operatorv1.OperatorStatusTypeAvailable, operatorv1.ConditionTrue},
	{operatorv1.OperatorStatusTypeProgressing, operatorv1.ConditionFalse},
	{operatorv1.OperatorStatusTypeDegraded, operatorv1.ConditionFalse},
}

// summarize computes the summary conditions from all others. A part that is expected and has not
// been heard of is not available yet, and progressing.
func summarize(conditions []operatorv1.OperatorCondition, expected []part) []operatorv1.OperatorCondition {
	parts := slices.DeleteFunc(slices.Clone(conditions), func(c operatorv1.OperatorCondition) bool { return isSummary(c.Type) })
	for _, p := range expected {
		for conditionType, status := range map[string]operatorv1.ConditionStatus{
			operatorv1.OperatorStatusTypeAvailable:   operatorv1.ConditionFalse,
			operatorv1.OperatorStatusTypeProgressing: operatorv1.ConditionTrue,
		} {
			if v1helpers.FindOperatorCondition(parts, p.name+conditionType) == nil {
				parts = append(parts, operatorv1.OperatorCondition{Type: p.name + conditionType, Status: status,
					Reason: "Pending", Message: fmt.Sprintf("%s %s is yet to be made", p.manifest.Object.GetKind(), p.manifest.Object.GetName())})
			}
		}
	}
	var summary []operatorv1.OperatorCondition
	for _, s := range summarized {
		summary = append(summary, status.UnionCondition(s.conditionType, s.well, nil, parts...))
	}
	return summary
}

func isSummary(conditionType string) bool {
	for _, s := range summarized {
		if conditionType == s.conditionType {
			return true
		}
	}
	return false
}
