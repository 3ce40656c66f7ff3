package clusterstorage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// TestInertia: a condition is Degraded for two minutes before the summary is; everything else shows at once.
func TestInertia(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	condition := func(conditionType string, status operatorv1.ConditionStatus, age time.Duration) operatorv1.OperatorCondition {
		return operatorv1.OperatorCondition{Type: "X" + conditionType, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-age))}
	}
	for _, tc := range []struct {
		name      string
		condition operatorv1.OperatorCondition
		of        configv1.ClusterStatusConditionType
		want      configv1.ConditionStatus
		wantNext  time.Duration
	}{
		{"degraded for a second", condition("Degraded", "True", time.Second), configv1.OperatorDegraded, configv1.ConditionFalse, 119 * time.Second},
		{"degraded for two minutes", condition("Degraded", "True", 2*time.Minute), configv1.OperatorDegraded, configv1.ConditionTrue, resync},
		{"unknown for a second", condition("Degraded", "Unknown", time.Second), configv1.OperatorDegraded, configv1.ConditionFalse, 119 * time.Second},
		{"not degraded", condition("Degraded", "False", time.Second), configv1.OperatorDegraded, configv1.ConditionFalse, resync},
		{"unavailable for a second", condition("Available", "False", time.Second), configv1.OperatorAvailable, configv1.ConditionFalse, resync},
		{"available for a second", condition("Available", "True", time.Second), configv1.OperatorAvailable, configv1.ConditionTrue, resync},
		{"progressing for a second", condition("Progressing", "True", time.Second), configv1.OperatorProgressing, configv1.ConditionTrue, resync},
		{"not upgradeable", condition("Upgradeable", "False", time.Second), configv1.OperatorUpgradeable, configv1.ConditionFalse, resync},
	} {
		t.Run(tc.name, func(t *testing.T) {
			summary, next := summarize(nil, []operatorv1.OperatorCondition{tc.condition}, now)
			for _, c := range summary.Conditions {
				if c.Type == tc.of && c.Status != tc.want {
					t.Errorf("%s is %s (%s), want %s", c.Type, c.Status, c.Reason, tc.want)
				}
			}
			assert.Equal(t, tc.wantNext, next, "time to the next sync")
		})
	}
}

// TestSummaryKeepsTransitionTimes: a summary that stays as it is is not written again.
func TestSummaryKeepsTransitionTimes(t *testing.T) {
	then := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	conditions := []operatorv1.OperatorCondition{{Type: "XAvailable", Status: "True"}}
	first, _ := summarize(nil, conditions, then)
	second, _ := summarize(&configv1.ClusterOperator{Status: first}, conditions, then.Add(time.Hour))
	assert.Empty(t, cmp.Diff(first, second), "the same conditions make another summary an hour later")
}

// TestVersions: a version is reported once everything that it is of runs at it, and the old one until then.
func TestVersions(t *testing.T) {
	settled := state("1.1.0")
	old := state("1.0.0")
	failed := state("1.1.0")
	failed.err = errNoStorage
	two := func(a, b driverState) []driverState {
		a.driver.ConditionPrefix, b.driver.ConditionPrefix = "A", "B"
		return []driverState{a, b}
	}
	was := []configv1.OperandVersion{{Name: "ACSIDriverOperator", Version: "1.0.0"}, {Name: "BCSIDriverOperator", Version: "1.0.0"}, {Name: "operator", Version: "1.0.0"}}
	for _, tc := range []struct {
		name   string
		was    []configv1.OperandVersion
		states []driverState
		want   map[string]string
	}{
		{"a platform without drivers", nil, nil, map[string]string{"operator": "1.1.0"}},
		{"everything has arrived", was, two(settled, settled), map[string]string{"ACSIDriverOperator": "1.1.0", "BCSIDriverOperator": "1.1.0", "operator": "1.1.0"}},
		{"one has not", was, two(settled, old), map[string]string{"ACSIDriverOperator": "1.1.0", "BCSIDriverOperator": "1.0.0", "operator": "1.0.0"}},
		{"one fails", was, two(failed, settled), map[string]string{"ACSIDriverOperator": "1.0.0", "BCSIDriverOperator": "1.1.0", "operator": "1.0.0"}},
		{"an installation", nil, two(settled, old), map[string]string{"ACSIDriverOperator": "1.1.0"}},
		{"a driver that has gone", was, two(settled, settled)[:1], map[string]string{"ACSIDriverOperator": "1.1.0", "operator": "1.1.0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := map[string]string{}
			for _, v := range versions(tc.was, tc.states, "1.1.0") {
				got[v.Name] = v.Version
			}
			assert.Empty(t, cmp.Diff(tc.want, got), "versions (-want +got)")
		})
	}
}

// state returns a driver that runs as it should, at a version.
func state(version string) driverState {
	return driverState{
		driver:     drivers.Driver{CSIName: "x.csi.example.com", ConditionPrefix: "X", ClusterStorage: &drivers.ClusterStorage{}},
		deployment: deployment(running),
		customResource: &operatorv1.ClusterCSIDriver{Status: operatorv1.ClusterCSIDriverStatus{OperatorStatus: operatorv1.OperatorStatus{
			Version: version,
			Conditions: []operatorv1.OperatorCondition{
				{Type: "Available", Status: "True"}, {Type: "Progressing", Status: "False"}, {Type: "Degraded", Status: "False"},
			},
		}}},
	}
}

// TestRelatedObjects: a failed sync does not forget OLM's operators that have to end, nor the objects of the driver's operator. A later one
// does, once they are gone.
func TestRelatedObjects(t *testing.T) {
	driver := drivers.Driver{CSIName: "boat.csi.example.com"}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"namespace": "quay", "name": "boat-operator"}}}
	held := driverState{driver: driver, succession: succession{former: []client.ObjectKey{{Namespace: "harbour", Name: "old-boat-operator"}}}, objects: []*unstructured.Unstructured{object}}
	former := configv1.ObjectReference{Group: "apps", Resource: "deployments", Namespace: "harbour", Name: "old-boat-operator"}
	before := relatedObjects([]driverState{held}, nil)
	require.Contains(t, before, former, "the related objects")
	during := before
	for range 2 {
		during = relatedObjects([]driverState{{driver: driver, err: errors.New("the API server is away")}}, during)
		order := func(a, b configv1.ObjectReference) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
		if diff := cmp.Diff(slices.SortedFunc(slices.Values(before), order), slices.SortedFunc(slices.Values(during), order)); diff != "" {
			t.Fatalf("a failed sync changes the related objects (-want +got):\n%s", diff)
		}
	}
	held.former = nil
	assert.NotContains(t, relatedObjects([]driverState{held}, during), former, "related objects")
}
