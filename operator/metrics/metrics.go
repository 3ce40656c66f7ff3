// Package metrics defines the operator's own metrics, beside those of its libraries, and serves them to the cluster's
// monitoring, and the operator's health to the kubelet.
//
// Each series has the label "driver": the name of the driver's CSIDriver object, such as "efs.csi.aws.com".
package metrics

import (
	"sync"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/component-base/metrics"

	"github.com/berth-csi/berth/drivers"
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
	// WaitingForLock is 1 while the operator waits for the lock in a namespace, either its own or that of another
	// operator of the driver, and 0 once it no longer waits for that lock.
	WaitingForLock *metrics.GaugeVec
	// Upgradeable is 1 if the operator lets OLM update it, and 0 if not.
	Upgradeable *metrics.GaugeVec

	quotaUsed, quotaLimit, quotaShared, classRisks *series

	conditions *metrics.GaugeVec
	mu         sync.Mutex
	shown      map[shownCondition]bool
}

// shownCondition identifies a series of conditions.
type shownCondition struct{ driver, condition, reason string }

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
		Upgradeable: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name:           "berth_operator_upgradeable",
			Help:           "1 if the Operator Lifecycle Manager may update the operator; 0 while the operator takes the driver over or removes it.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver"}),
		quotaUsed: newSeries(&metrics.GaugeOpts{
			Name:           "berth_quota_used",
			Help:           "Number of resources of a kind, such as access points, that there are in what StorageClasses name, such as a file system.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver", "resources", "of"}),
		quotaLimit: newSeries(&metrics.GaugeOpts{
			Name:           "berth_quota_limit",
			Help:           "Number of these resources that the cloud allows, unless it has raised that for the account.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver", "resources", "of"}),
		quotaShared: newSeries(&metrics.GaugeOpts{
			Name:           "berth_quota_shared_ids",
			Help:           "Number of IDs, such as group IDs of access points, that several of these resources have and that each should have for itself.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver", "resources", "of"}),
		classRisks: newSeries(&metrics.GaugeOpts{
			Name:           "berth_storage_class_risk",
			Help:           "1 for each StorageClass of the driver with which the deletion of one claim deletes the files of others.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver", "storageclass"}),
		conditions: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name:           "berth_cluster_csi_driver_condition",
			Help:           "Conditions of the ClusterCSIDriver, as the operator writes them: 1 if true, 0 if false, -1 if unknown.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"driver", "condition", "reason"}),
		shown: map[shownCondition]bool{},
	}
	mustRegister(m.CustomResourceMissing, m.AdoptedObjects, m.BlockingPods, m.WaitingForLock, m.Upgradeable, m.quotaUsed, m.quotaLimit, m.quotaShared, m.classRisks, m.conditions)
	return m
}

// valuesOfConditions are the values of their metric.
var valuesOfConditions = map[operatorv1.ConditionStatus]float64{operatorv1.ConditionTrue: 1, operatorv1.ConditionFalse: 0, operatorv1.ConditionUnknown: -1}

// SetConditions shows the conditions of a driver's ClusterCSIDriver in a metric, and no others of the driver.
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

// SetQuota replaces the metrics of the driver's quota. The key of used is the parent, such as a file system. A process has one driver.
func (m *Metrics) SetQuota(driver, resources string, limit int, used map[string]drivers.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	resourcesOf, limits, shared := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for of, usage := range used {
		resourcesOf[of], limits[of], shared[of] = float64(usage.Resources), float64(limit), float64(len(usage.Shared))
	}
	labels := func(of string) map[string]string {
		return map[string]string{"driver": driver, "resources": resources, "of": of}
	}
	m.quotaUsed.replace(resourcesOf, labels)
	m.quotaLimit.replace(limits, labels)
	m.quotaShared.replace(shared, labels)
}

// SetClassRisks replaces the StorageClasses that are shown to endanger files.
func (m *Metrics) SetClassRisks(driver string, classes []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	risks := map[string]float64{}
	for _, class := range classes {
		risks[class] = 1
	}
	m.classRisks.replace(risks, func(class string) map[string]string {
		return map[string]string{"driver": driver, "storageclass": class}
	})
}

// series is a metric of things that come and go.
type series struct {
	*metrics.GaugeVec
	shown map[string]map[string]string // labels, by the thing's name
}

func newSeries(opts *metrics.GaugeOpts, labels []string) *series {
	return &series{metrics.NewGaugeVec(opts, labels), map[string]map[string]string{}}
}

// replace shows values by name, and no others. Who reads the metric meanwhile misses none that stays.
func (s *series) replace(values map[string]float64, labels func(name string) map[string]string) {
	for name, value := range values {
		s.shown[name] = labels(name)
		s.With(s.shown[name]).Set(value)
	}
	for name, of := range s.shown {
		if _, stays := values[name]; !stays {
			s.Delete(of)
			delete(s.shown, name)
		}
	}
}
