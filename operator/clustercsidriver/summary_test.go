package clustercsidriver

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
)

func TestSummarize(t *testing.T) {
	condition := func(conditionType string, status operatorv1.ConditionStatus, message string) operatorv1.OperatorCondition {
		return operatorv1.OperatorCondition{Type: conditionType, Status: status, Reason: "Because", Message: message}
	}
	for _, tc := range []struct {
		name       string
		conditions []operatorv1.OperatorCondition
		expected   []Component
		want       map[string]string // status of each summary condition
	}{
		{
			name: "no conditions yet",
			want: map[string]string{"Available": "Unknown", "Progressing": "Unknown", "Degraded": "Unknown"},
		},
		{
			name: "all healthy",
			conditions: []operatorv1.OperatorCondition{
				condition("NodeAvailable", operatorv1.ConditionTrue, ""), condition("ControllerAvailable", operatorv1.ConditionTrue, ""),
				condition("NodeProgressing", operatorv1.ConditionFalse, ""), condition("ObjectsDegraded", operatorv1.ConditionFalse, ""),
			},
			want: map[string]string{"Available": "True", "Progressing": "False", "Degraded": "False"},
		},
		{
			name: "one unhealthy component decides",
			conditions: []operatorv1.OperatorCondition{
				condition("NodeAvailable", operatorv1.ConditionTrue, ""), condition("ControllerAvailable", operatorv1.ConditionFalse, "no pod"),
				condition("NodeProgressing", operatorv1.ConditionTrue, "rolling out"), condition("ControllerProgressing", operatorv1.ConditionFalse, ""),
				condition("ObjectsDegraded", operatorv1.ConditionTrue, "refused"), condition("NodeDegraded", operatorv1.ConditionFalse, ""),
			},
			want: map[string]string{"Available": "False", "Progressing": "True", "Degraded": "True"},
		},
		{
			name: "a component has not reported",
			conditions: []operatorv1.OperatorCondition{
				condition("NodeAvailable", operatorv1.ConditionTrue, ""), condition("NodeProgressing", operatorv1.ConditionFalse, ""),
				condition("NodeDegraded", operatorv1.ConditionFalse, ""),
			},
			expected: []Component{{Name: "Node", Manifest: manifest("DaemonSet")}, {Name: "Controller", Manifest: manifest("Deployment")}},
			want:     map[string]string{"Available": "False", "Progressing": "True", "Degraded": "False"},
		},
		{
			name: "an earlier summary is ignored",
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
			assert.Empty(t, cmp.Diff(tc.want, got), "summary (-want +got)")
		})
	}
}

func manifest(kind string) drivers.Manifest {
	object := &unstructured.Unstructured{}
	object.SetKind(kind)
	return drivers.Manifest{Object: object}
}
