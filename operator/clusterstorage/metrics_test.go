package clusterstorage

import (
	"encoding/json"
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
		for i, class := range step.classes { // as the cache has them
			step.classes[i] = trim(t, class)
		}
		for i, class := range step.attributes {
			step.attributes[i] = trim(t, class)
		}
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

// trim returns an object as the cache has it.
func trim[T any](t *testing.T, object T) T {
	t.Helper()
	trimmed, err := trimClass(object)
	require.NoError(t, err)
	return trimmed.(T)
}

// TestLargeClasses: the cache keeps little of a class, whatever its authors have written into it.
func TestLargeClasses(t *testing.T) {
	large := strings.Repeat("m", 1<<18)
	with := metav1.ObjectMeta{Name: "large", Annotations: map[string]string{"a": large, "storageclass.kubernetes.io/is-default-class": "true"}, Labels: map[string]string{"a": large},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: large}}}
	for _, kept := range []any{
		trim(t, &storagev1.StorageClass{ObjectMeta: with, Provisioner: large, Parameters: map[string]string{large: large}, MountOptions: []string{large}}),
		trim(t, &storagev1.VolumeAttributesClass{ObjectMeta: with, DriverName: "a", Parameters: map[string]string{large: large}}),
	} {
		text, err := json.Marshal(kept)
		require.NoError(t, err)
		assert.Less(t, len(text), 1000, "bytes of a %T", kept)
	}
	driver := &storagev1.CSIDriver{ObjectMeta: with}
	assert.Same(t, driver, trim(t, driver))
}
