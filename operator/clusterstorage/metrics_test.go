package clusterstorage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"
)

// TestShow: the metrics show the cluster's present classes, and no earlier ones.
func TestShow(t *testing.T) {
	class := func(annotation, value string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotation: value}}}
	}
	attributes := func(driver string, names ...string) *storagev1.VolumeAttributesClass {
		class := &storagev1.VolumeAttributesClass{DriverName: driver, Parameters: map[string]string{}}
		for _, name := range names {
			class.Parameters[name] = driver
		}
		return class
	}
	const annotation, beta = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
	for _, step := range []struct {
		classes    []*storagev1.StorageClass
		attributes []*storagev1.VolumeAttributesClass
		want       string
	}{
		{nil, nil, "default_storage_class_count 0\n"},
		{[]*storagev1.StorageClass{class(annotation, "true"), class(annotation, "false"), class("other", "true"), class(beta, "true")},
			[]*storagev1.VolumeAttributesClass{attributes("a", "iops", "type"), attributes("b", "iops"), attributes("a", "type", "iops"), attributes("b", "type"), attributes("b", "iops")},
			"default_storage_class_count 2\nopenshift_cluster_storage_vac_mismatch_parameters driver=a 0\nopenshift_cluster_storage_vac_mismatch_parameters driver=b 1\n"},
		{[]*storagev1.StorageClass{class(annotation, "true")}, []*storagev1.VolumeAttributesClass{attributes("c")},
			"default_storage_class_count 1\nopenshift_cluster_storage_vac_mismatch_parameters driver=c 0\n"},
	} {
		show(step.classes, step.attributes)
		families, err := legacyregistry.DefaultGatherer.Gather()
		require.NoError(t, err)
		var got string
		for _, family := range families {
			if !strings.HasPrefix(family.GetName(), "default_storage_") && !strings.HasPrefix(family.GetName(), "openshift_cluster_storage_") {
				continue
			}
			for _, metric := range family.GetMetric() {
				got += family.GetName()
				for _, label := range metric.GetLabel() {
					got += " " + label.GetName() + "=" + label.GetValue()
				}
				got += fmt.Sprintf(" %v\n", metric.GetGauge().GetValue())
			}
		}
		assert.Equal(t, step.want, got)
	}
}
