package metrics

import (
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"github.com/berth-csi/berth/drivers"
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
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "berth_cluster_csi_driver_condition"); err != nil {
			t.Error(err)
		}
	}
}

// TestQuotaIsNeverMissing: while the quota is set again and again, whoever reads the metrics sees what stays, and at the end nothing that went.
func TestQuotaIsNeverMissing(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	m := New(registry.MustRegister)
	used := map[string]drivers.Usage{"fs-1": {Resources: 7}, "fs-2": {Resources: 8}}
	m.SetQuota("d", "access points", 10, used)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				m.SetQuota("d", "access points", 10, used)
			}
		}
	}()
	for range 200 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if name := family.GetName(); strings.HasPrefix(name, "berth_quota_") && len(family.GetMetric()) != 2 {
				t.Fatalf("%s has %d series, want that of two file systems", name, len(family.GetMetric()))
			}
		}
	}
	close(stop)
	<-stopped
	m.SetQuota("d", "access points", 10, map[string]drivers.Usage{"fs-2": {Resources: 9}})
	want := "# HELP berth_quota_used [ALPHA] Number of resources of a kind, such as access points, that there are in what StorageClasses name, such as a file system.\n" +
		"# TYPE berth_quota_used gauge\nberth_quota_used{driver=\"d\",of=\"fs-2\",resources=\"access points\"} 9\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "berth_quota_used"); err != nil {
		t.Error(err)
	}
}
