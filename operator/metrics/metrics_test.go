package metrics

import (
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
)

// TestConditions: the metric has the conditions that there are, and none that there were.
func TestConditions(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	m := New(registry.MustRegister)
	is := func(kind string, status operatorv1.ConditionStatus, reason string) operatorv1.OperatorCondition {
		return operatorv1.OperatorCondition{Type: kind, Status: status, Reason: reason}
	}
	m.SetConditions("other", []operatorv1.OperatorCondition{is("Available", operatorv1.ConditionTrue, "AsExpected")})
	for _, step := range []struct {
		conditions []operatorv1.OperatorCondition
		want       []string
	}{
		{[]operatorv1.OperatorCondition{is("Available", operatorv1.ConditionTrue, "AsExpected"), is("Degraded", operatorv1.ConditionFalse, "")},
			[]string{`{condition="Available",driver="d",reason="AsExpected"} 1`, `{condition="Degraded",driver="d",reason=""} 0`}},
		{[]operatorv1.OperatorCondition{is("Available", operatorv1.ConditionUnknown, "Unmanaged")}, []string{`{condition="Available",driver="d",reason="Unmanaged"} -1`}},
		{nil, nil},
	} {
		m.SetConditions("d", step.conditions)
		want := "# HELP berth_cluster_csi_driver_condition [ALPHA] Conditions of the ClusterCSIDriver, as the operator writes them: 1 if true, 0 if false, -1 if unknown.\n" +
			"# TYPE berth_cluster_csi_driver_condition gauge\n"
		for _, line := range append(step.want, `{condition="Available",driver="other",reason="AsExpected"} 1`) {
			want += "berth_cluster_csi_driver_condition" + line + "\n"
		}
		assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "berth_cluster_csi_driver_condition"))
	}
}
