package clusterstorage

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		names := parametersOf(class)
		before, known := first[class.DriverName]
		if !known {
			first[class.DriverName] = names
		}
		differ[class.DriverName] = differ[class.DriverName] || known && before != names
	}
	return differ
}

// parametersOf returns the names of a class's parameters.
func parametersOf(class *storagev1.VolumeAttributesClass) string {
	return strings.Join(slices.Sorted(maps.Keys(class.Parameters)), "\n")
}

// trimClass returns a class with only the fields that show reads, and other objects as they are. Whoever administers storage may write
// classes of up to 1.5 MiB, and hundreds of them would fill the memory.
func trimClass(object any) (any, error) {
	trimmed := func(class metav1.ObjectMeta) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: class.Name, UID: class.UID, ResourceVersion: class.ResourceVersion}
	}
	switch class := object.(type) {
	case *storagev1.StorageClass:
		kept := &storagev1.StorageClass{ObjectMeta: trimmed(class.ObjectMeta)}
		for key, value := range class.Annotations {
			if one := map[string]string{key: value}; controllers.IsDefaultStorageClass(one) {
				kept.Annotations = one
			}
		}
		return kept, nil
	case *storagev1.VolumeAttributesClass: // classes with the same names of parameters have the same hash
		hash := sha256.Sum256([]byte(parametersOf(class)))
		return &storagev1.VolumeAttributesClass{ObjectMeta: trimmed(class.ObjectMeta), DriverName: class.DriverName, Parameters: map[string]string{hex.EncodeToString(hash[:]): ""}}, nil
	}
	return object, nil
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
