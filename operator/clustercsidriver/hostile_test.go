package clustercsidriver

import (
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/test/hostile"
)

// TestHostileMessages: whatever a controller says, each condition of the ClusterCSIDriver and its summaries are harmless.
func TestHostileMessages(t *testing.T) {
	for _, text := range hostile.Texts() {
		r := NewReporter(nil, nil, ReporterOptions{IsCurrent: func(string) bool { return true }})
		for _, controller := range []string{"A", "B"} {
			r.enqueue(controller, applyoperatorv1.OperatorStatus().WithConditions(applyoperatorv1.OperatorCondition().
				WithType(controller+"Degraded").WithStatus(operatorv1.ConditionTrue).WithReason("Broken").WithMessage("pod "+text)))
		}
		conditions := r.desired(&operatorv1.OperatorStatus{}).Conditions
		require.Lenf(t, conditions, 5, "got %d conditions, want two and their summaries", len(conditions))
		for _, c := range conditions {
			hostile.Check(t, c.Type, c.Message, 16<<10)
		}
	}
}
