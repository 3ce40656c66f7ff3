package clusterstorage

import (
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-csi/berth/operator/controllers"
)

// The metrics have the names of OpenShift's cluster storage operator, because alerts, dashboards and telemetry rely on
// them.
var (
	defaultClasses = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "default_storage_class_count",
		Help:           "Number of StorageClasses that are marked as the default.",
		StabilityLevel: metrics.ALPHA,
	})
	mismatchedClasses = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "openshift_cluster_storage_vac_mismatch_parameters",
		Help:           "1 if the VolumeAttributesClasses of a driver do not all have parameters of the same names, 0 if they do.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"driver"})
)

func init() { legacyregistry.MustRegister(defaultClasses, mismatchedClasses) }

// countDefaults returns how many StorageClasses are the default.
func countDefaults(classes []*storagev1.StorageClass) (count int) {
	for _, class := range classes {
		if controllers.IsDefaultStorageClass(class.Annotations) {
			count++
		}
	}
	return count
}

// mismatches reports for each driver whether its VolumeAttributesClasses have parameters with different names. A volume that moves to
// another class keeps the parameters that this class lacks.
func mismatches(classes []*storagev1.VolumeAttributesClass) map[string]bool {
	first, differ := map[string]string{}, map[string]bool{}
	for _, class := range classes {
		names := strings.Join(slices.Sorted(maps.Keys(class.Parameters)), "\n")
		before, known := first[class.DriverName]
		if !known {
			first[class.DriverName] = names
		}
		differ[class.DriverName] = differ[class.DriverName] || known && before != names
	}
	return differ
}

// show shows the classes of the cluster in metrics.
func show(classes []*storagev1.StorageClass, attributes []*storagev1.VolumeAttributesClass) {
	defaultClasses.Set(float64(countDefaults(classes)))
	mismatchedClasses.Reset()
	for driver, differ := range mismatches(attributes) {
		value := 0.0
		if differ {
			value = 1
		}
		mismatchedClasses.WithLabelValues(driver).Set(value)
	}
}
