package subscription

import (
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAdoptDriver: the switch waits for the driver's pods, except on NotReady nodes, where the operator does not wait
// either.
func TestAdoptDriver(t *testing.T) {
	well := []operatorv1.OperatorCondition{
		{Type: "Available", Status: operatorv1.ConditionTrue}, {Type: "Progressing", Status: operatorv1.ConditionFalse}, {Type: "Degraded", Status: operatorv1.ConditionFalse},
	}
	progressing := append([]operatorv1.OperatorCondition{{Type: "Progressing", Status: operatorv1.ConditionTrue, Message: "not counting: worker-3"}}, well...)
	status := func(updated, ready int32) appsv1.DaemonSetStatus {
		return appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, UpdatedNumberScheduled: updated, NumberReady: ready}
	}
	for _, tc := range []struct {
		name       string
		conditions []operatorv1.OperatorCondition
		stable     string // the generation whose rollout the operator has seen complete
		status     appsv1.DaemonSetStatus
		waits      string // a part of it
	}{
		{name: "complete", conditions: well, status: status(3, 3)},
		{name: "the operator waits", conditions: progressing, status: status(2, 2), waits: "not counting: worker-3"},
		{name: "a pod is outdated", conditions: well, status: status(2, 3), waits: "2 of 3 pods are up to date, 3 are ready"},
		{name: "a pod is not ready", conditions: well, status: status(3, 2), waits: "3 of 3 pods are up to date, 2 are ready"},
		{name: "a node is dead, and the operator does not wait", conditions: well, stable: "2", status: status(2, 2)},
		{name: "it did not wait for an earlier update", conditions: well, stable: "1", status: status(2, 2), waits: "2 of 3 pods"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &state{
				plan:   &Plan{Driver: &Driver{Create: true}},
				driver: &operatorv1.ClusterCSIDriver{Status: operatorv1.ClusterCSIDriverStatus{OperatorStatus: operatorv1.OperatorStatus{Conditions: tc.conditions}}},
				daemonSets: []appsv1.DaemonSet{{
					ObjectMeta: metav1.ObjectMeta{Generation: 2, Annotations: map[string]string{"storage.openshift.io/stable-generation": tc.stable}},
					Status:     tc.status,
				}},
			}
			next, err := s.adoptDriver()
			if err != nil || !strings.Contains(next.Waits, tc.waits) || (next.Waits == "") != (tc.waits == "") {
				t.Errorf("it waits for %q (%v), want %q", next.Waits, err, tc.waits)
			}
		})
	}
}
