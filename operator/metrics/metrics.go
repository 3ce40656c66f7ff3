// Package metrics defines the operator's own metrics. It serves them, with the metrics of the libraries, to the
// cluster's monitoring, and the operator's health to the kubelet.
//
// Each series has the label "driver": the name of the driver's CSIDriver object, such as "efs.csi.aws.com".
package metrics

import (
	"sync"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/component-base/metrics"
)

// Metrics are the metrics of one operator.
type Metrics struct {
	// CustomResourceMissing is 1 while the driver has no ClusterCSIDriver, and 0 otherwise. The series does not exist
	// until the operator has read the cluster, which it does once it holds the lock.
	CustomResourceMissing *metrics.GaugeVec
	// AdoptedObjects counts the objects of earlier operators that this process has adopted, by kind. Each object is
	// counted once, by the process that adopts it.
	AdoptedObjects *metrics.CounterVec
	// BlockingPods is the number of pods that block the removal of the driver because they use its volumes; 0 while
	// no removal is blocked.
	BlockingPods *metrics.GaugeVec
	// WaitingForLock is 1 while the operator waits for the lock in a namespace, either its own or another operator's,
	// and 0 once it no longer waits for that lock.
	WaitingForLock *metrics.GaugeVec
	// Upgradeable is 1 if the operator lets OLM update it, and 0 if not.
	Upgradeable *metrics.GaugeVec

	conditions *metrics.GaugeVec
	mu         sync.Mutex
	shown      map[shownCondition]bool
}

// shownCondition identifies a series of conditions.
type shownCondition struct{ driver, condition, reason string }

// New returns the metrics of an operator, registered by a function such as legacyregistry.MustRegister. A registry can hold the metrics
// of only one operator.
func New(mustRegister func(...metrics.Registerable)) *Metrics {
	m := &Metrics{
		CustomResourceMissing: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name:           "berth_cluster_csi_driver_missing",
			Help:           "1 if there is no ClusterCSIDriver object of the driver's name, so that the operator leaves the driver alone; 0 if there is one.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver"}),
		AdoptedObjects: metrics.NewCounterVec(&metrics.CounterOpts{
			Name:           "berth_adopted_objects_total",
			Help:           "Number of objects that an earlier operator of the driver had made and that this operator took over in place, by kind.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver", "kind"}),
		BlockingPods: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name:           "berth_uninstall_blocking_pods",
			Help:           "Number of pods that block the removal of the driver because they use its volumes; 0 if no removal is blocked.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver"}),
		WaitingForLock: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name:           "berth_operator_waiting_for_lock",
			Help:           "1 while the operator waits for another operator that holds the lock in the namespace; 0 if it does not.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver", "namespace"}),
		Upgradeable: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name:           "berth_operator_upgradeable",
			Help:           "1 if the Operator Lifecycle Manager may update the operator; 0 while the operator takes the driver over or removes it.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver"}),
		conditions: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name:           "berth_cluster_csi_driver_condition",
			Help:           "Conditions of the ClusterCSIDriver, as the operator writes them: 1 if true, 0 if false, -1 if unknown.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver", "condition", "reason"}),
		shown: map[shownCondition]bool{},
	}
	mustRegister(m.CustomResourceMissing, m.AdoptedObjects, m.BlockingPods, m.WaitingForLock, m.Upgradeable, m.conditions)
	return m
}

// valuesOfConditions are the values of the metric about conditions, by status.
var valuesOfConditions = map[operatorv1.ConditionStatus]float64{operatorv1.ConditionTrue: 1, operatorv1.ConditionFalse: 0, operatorv1.ConditionUnknown: -1}

// SetConditions shows the conditions of a driver's ClusterCSIDriver in a metric, and removes the driver's other series from it.
func (m *Metrics) SetConditions(driver string, conditions []operatorv1.OperatorCondition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	current := map[shownCondition]bool{}
	for _, c := range conditions {
		of := shownCondition{driver, c.Type, c.Reason}
		m.conditions.WithLabelValues(of.driver, of.condition, of.reason).Set(valuesOfConditions[c.Status])
		m.shown[of], current[of] = true, true
	}
	for of := range m.shown {
		if of.driver == driver && !current[of] {
			m.conditions.Delete(map[string]string{"driver": of.driver, "condition": of.condition, "reason": of.reason})
			delete(m.shown, of)
		}
	}
}
