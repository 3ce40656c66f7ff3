// Package metrics defines the operator's own metrics, beside those of its libraries. Package serving serves them.
//
// Each series has the label "driver": the name of the driver's CSIDriver object, such as "efs.csi.aws.com".
package metrics

import "k8s.io/component-base/metrics"

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
	// WaitingForLock is 1 while the operator waits for the lock in a namespace, either its own or that of another
	// operator of the driver, and 0 once it no longer waits for that lock.
	WaitingForLock *metrics.GaugeVec
}

// New returns the metrics of an operator, registered by a function such as legacyregistry.MustRegister. A registry takes
// those of one operator.
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
			Help:           "Number of pods that use volumes of the driver and that its removal therefore waits for; 0 if none is under way or held up.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver"}),
		WaitingForLock: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name:           "berth_operator_waiting_for_lock",
			Help:           "1 while the operator waits for the end of another one that holds the lock in the namespace; 0 if it does not.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver", "namespace"}),
	}
	mustRegister(m.CustomResourceMissing, m.AdoptedObjects, m.BlockingPods, m.WaitingForLock)
	return m
}
