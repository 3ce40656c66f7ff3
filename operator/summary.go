package operator

import (
	"context"
	"fmt"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/status"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// newSummaryController keeps the ClusterCSIDriver's conditions Available, Progressing and Degraded:
// each is the union of the conditions that the single controllers write, so that a person, and
// "kubectl wait", can ask one question.
func (o *operator) newSummaryController(c *clients, expected []part) factory.Controller {
	name := o.driver.ConditionPrefix + "Summary"
	sync := func(ctx context.Context, _ factory.SyncContext) error {
		_, current, _, err := c.customResource.GetOperatorState()
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		meta, err := c.customResource.GetObjectMeta()
		if err != nil {
			return err
		}
		return c.customResource.ApplyOperatorStatus(ctx, name,
			summarize(current.Conditions, expected).WithObservedGeneration(meta.Generation).WithVersion(o.version))
	}
	return factory.New().
		WithInformers(c.customResource.Informer()).
		WithSync(sync).
		ToController(name, o.recorder)
}

// summarize computes the summary conditions from all others. A part that is expected and has not
// been heard of is not available yet, and progressing.
func summarize(conditions []operatorv1.OperatorCondition, expected []part) *applyoperatorv1.OperatorStatusApplyConfiguration {
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
	summary := applyoperatorv1.OperatorStatus()
	for _, s := range summarized {
		union := status.UnionCondition(s.conditionType, s.well, nil, parts...)
		summary.WithConditions(applyoperatorv1.OperatorCondition().
			WithType(union.Type).WithStatus(union.Status).WithReason(union.Reason).WithMessage(union.Message))
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
