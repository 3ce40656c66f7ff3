package clustercsidriver

import (
	"fmt"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/status"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-csi/berth/drivers"
)

// A Component of a driver is an object with a controller of its own, which reports in conditions whether the component
// is available and whether it is progressing.
type Component struct {
	Name     string // the controller's name, and the prefix of its condition types
	Manifest drivers.Manifest
}

// summaries are the conditions that sum up all conditions with the same suffix, and the status of a healthy condition.
var summaries = []struct {
	conditionType string
	healthy       operatorv1.ConditionStatus
}{
	{operatorv1.OperatorStatusTypeAvailable, operatorv1.ConditionTrue},
	{operatorv1.OperatorStatusTypeProgressing, operatorv1.ConditionFalse},
	{operatorv1.OperatorStatusTypeDegraded, operatorv1.ConditionFalse},
}

// pending are the conditions that each component reports, with the statuses that are assumed until it does.
var pending = map[string]operatorv1.ConditionStatus{
	operatorv1.OperatorStatusTypeAvailable:   operatorv1.ConditionFalse,
	operatorv1.OperatorStatusTypeProgressing: operatorv1.ConditionTrue,
}

// haveReported reports whether the applied statuses have the conditions of all expected components.
func haveReported(expected []Component, applied map[string]*applyoperatorv1.OperatorStatusApplyConfiguration) bool {
	reported := sets.New[string]()
	for _, status := range applied {
		for _, c := range status.Conditions {
			reported.Insert(*c.Type)
		}
	}
	for _, component := range expected {
		for conditionType := range pending {
			if !reported.Has(component.Name + conditionType) {
				return false
			}
		}
	}
	return true
}

// summarize computes the summary conditions from all others. An expected component that has not reported yet counts as
// progressing and not available.
func summarize(conditions []operatorv1.OperatorCondition, expected []Component) []operatorv1.OperatorCondition {
	all := slices.DeleteFunc(slices.Clone(conditions), func(c operatorv1.OperatorCondition) bool { return isSummary(c.Type) })
	all = append(all, pendingOf(conditions, expected)...)
	var summary []operatorv1.OperatorCondition
	for _, s := range summaries {
		summary = append(summary, status.UnionCondition(s.conditionType, s.healthy, nil, all...))
	}
	return summary
}

// pendingOf returns the assumed conditions of the expected components that have not reported yet.
func pendingOf(conditions []operatorv1.OperatorCondition, expected []Component) []operatorv1.OperatorCondition {
	var all []operatorv1.OperatorCondition
	for _, component := range expected {
		for conditionType, status := range pending {
			if v1helpers.FindOperatorCondition(conditions, component.Name+conditionType) == nil {
				object := component.Manifest.Object
				all = append(all, operatorv1.OperatorCondition{Type: component.Name + conditionType, Status: status,
					Reason: "Pending", Message: fmt.Sprintf("%s %s has not been created yet", object.GetKind(), object.GetName())})
			}
		}
	}
	return all
}

func isSummary(conditionType string) bool {
	for _, s := range summaries {
		if conditionType == s.conditionType {
			return true
		}
	}
	return false
}
