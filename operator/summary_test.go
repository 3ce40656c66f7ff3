package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
)

func TestSummarize(t *testing.T) {
	condition := func(conditionType string, status operatorv1.ConditionStatus, message string) operatorv1.OperatorCondition {
		return operatorv1.OperatorCondition{Type: conditionType, Status: status, Reason: "Because", Message: message}
	}
	for _, tc := range []struct {
		name       string
		conditions []operatorv1.OperatorCondition
		expected   []part
		want       map[string]string // status of each summary condition
	}{
		{
			name: "nothing is known yet",
			want: map[string]string{"Available": "Unknown", "Progressing": "Unknown", "Degraded": "Unknown"},
		},
		{
			name: "all is well",
			conditions: []operatorv1.OperatorCondition{
				condition("NodeAvailable", operatorv1.ConditionTrue, ""), condition("ControllerAvailable", operatorv1.ConditionTrue, ""),
				condition("NodeProgressing", operatorv1.ConditionFalse, ""), condition("ObjectsDegraded", operatorv1.ConditionFalse, ""),
			},
			want: map[string]string{"Available": "True", "Progressing": "False", "Degraded": "False"},
		},
		{
			name: "one part that is not well decides",
			conditions: []operatorv1.OperatorCondition{
				condition("NodeAvailable", operatorv1.ConditionTrue, ""), condition("ControllerAvailable", operatorv1.ConditionFalse, "no pod"),
				condition("NodeProgressing", operatorv1.ConditionTrue, "rolling out"), condition("ControllerProgressing", operatorv1.ConditionFalse, ""),
				condition("ObjectsDegraded", operatorv1.ConditionTrue, "refused"), condition("NodeDegraded", operatorv1.ConditionFalse, ""),
			},
			want: map[string]string{"Available": "False", "Progressing": "True", "Degraded": "True"},
		},
		{
			name: "a part has not been heard of",
			conditions: []operatorv1.OperatorCondition{
				condition("NodeAvailable", operatorv1.ConditionTrue, ""), condition("NodeProgressing", operatorv1.ConditionFalse, ""),
				condition("NodeDegraded", operatorv1.ConditionFalse, ""),
			},
			expected: []part{{name: "Node", manifest: objects("DaemonSet")[0]}, {name: "Controller", manifest: objects("Deployment")[0]}},
			want:     map[string]string{"Available": "False", "Progressing": "True", "Degraded": "False"},
		},
		{
			name: "an earlier summary is no evidence",
			conditions: []operatorv1.OperatorCondition{
				condition("Available", operatorv1.ConditionFalse, "as it was"), condition("NodeAvailable", operatorv1.ConditionTrue, ""),
				condition("Degraded", operatorv1.ConditionTrue, "as it was"), condition("NodeDegraded", operatorv1.ConditionFalse, ""),
			},
			want: map[string]string{"Available": "True", "Progressing": "Unknown", "Degraded": "False"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := map[string]string{}
			for _, c := range summarize(tc.conditions, tc.expected) {
				got[c.Type] = string(c.Status)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}
