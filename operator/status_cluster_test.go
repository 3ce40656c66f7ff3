package operator_test

import (
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestStatusIsNotWrittenBeforeControllersReport: an operator that has just started does not know the state of the driver,
// and keeps the status that the previous one wrote. If it reset the status and then always crashed, it would never get
// further.
func TestStatusIsNotWrittenBeforeControllersReport(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	changes := env.Record(t, &operatorv1.ClusterCSIDriverList{}, client.MatchingFields{metav1.ObjectNameField: env.driver.CSIName})
	env.installDriver()
	said := 0
	for _, change := range changes() {
		custom := change.Object.(*operatorv1.ClusterCSIDriver)
		for _, conditionType := range []string{operatorv1.OperatorStatusTypeAvailable, operatorv1.OperatorStatusTypeProgressing} {
			switch summary := condition(custom, conditionType); summary.Status {
			case "":
			case operatorv1.ConditionUnknown:
				t.Errorf("the operator wrote that %s is %s: %s", conditionType, summary.Status, summary.Reason)
			default:
				said++
			}
		}
	}
	assert.NotZero(t, said, "what was recorded")
}
