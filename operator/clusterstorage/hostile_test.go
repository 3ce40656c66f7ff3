package clusterstorage

import (
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/berth-csi/berth/test/hostile"
)

// TestHostileMessages: whatever a driver's operator reports, the conditions of Storage are harmless.
func TestHostileMessages(t *testing.T) {
	for _, text := range hostile.Texts() {
		conditions := conditionSet{prefix: "Boat"}
		conditions.set(available, operatorv1.ConditionFalse, "Broken", "the driver's operator says: "+text)
		hostile.Check(t, "a condition", conditions.all[0].Message, 20<<10)
	}
}
