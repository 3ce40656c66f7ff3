package operator

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The operator's own metrics, beside those of its libraries. Each series has the label "driver", the name
// of the driver's CSIDriver object, such as "efs.csi.aws.com".
var (
	// customResourceMissing is 1 while there is no ClusterCSIDriver of the driver's name, and so nobody
	// looks after the driver, and 0 otherwise. Without a unit. An operator that has not seen the cluster
	// yet, or waits for the lock, has no such series.
	customResourceMissing = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "berth_cluster_csi_driver_missing",
		Help:           "1 if there is no ClusterCSIDriver object of the driver's name, so that the operator leaves the driver alone; 0 if there is one.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver"})

	// adoptedObjects counts the objects of earlier operators that this process has taken over, by their
	// kind, such as "DaemonSet". Each object is counted once, by whichever process takes it over.
	adoptedObjects = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "berth_adopted_objects_total",
		Help:           "Number of objects that an earlier operator of the driver had made and that this operator took over in place, by kind.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver", "kind"})

	// blockingPods is the number of pods that the removal of the driver waits for, because they use its
	// volumes; 0 while no removal waits for any.
	blockingPods = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "berth_uninstall_blocking_pods",
		Help:           "Number of pods that use volumes of the driver and that its removal therefore waits for; 0 if none is under way or held up.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver"})

	// waitingForLock is 1 while the operator waits for the lock in a namespace, its own or one in which another
	// operator of the driver runs, and 0 when it has waited for that.
	waitingForLock = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "berth_operator_waiting_for_lock",
		Help:           "1 while the operator waits for the end of another one that holds the lock in the namespace; 0 if it does not.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver", "namespace"})
)

// Package serving serves this registry.
func init() {
	legacyregistry.MustRegister(customResourceMissing, adoptedObjects, blockingPods, waitingForLock)
}
