package operator

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/operator/drivernamespace"
	"github.com/berth-csi/berth/operator/objects"
)

// TestRenderWithoutImages: a driver with unknown images cannot be installed, but it can be removed.
func TestRenderWithoutImages(t *testing.T) {
	t.Parallel()
	driver, err := registry.Get("manila")
	require.NoError(t, err)
	rendered := render(driver, func(string) string { return "" }, driver.Namespace, false)
	var missing *drivers.MissingImagesError
	if !errors.As(rendered.err, &missing) || len(missing.Env) != len(driver.Images) {
		t.Errorf("error is %v, want all %d images in it", rendered.err, len(driver.Images))
	}
	require.NoError(t, rendered.recordNamespace(drivernamespace.Namespace{Name: driver.Namespace, UID: "uid"}))
	assert.NotEmpty(t, rendered.manifests)
	for _, m := range rendered.manifests {
		labels, proof := m.Object.GetLabels(), ""
		if m.Object.GetKind() == "Namespace" {
			proof = "uid"
		}
		if labels[objects.ManagedByLabel] != driver.Operator.Name || labels[placement.ProofLabel] != proof {
			t.Errorf("labels of %s %s are %v", m.Object.GetKind(), m.Object.GetName(), labels)
		}
	}
}

// TestRenderForMonitoring: the cluster's own monitoring is for parts of the platform. Administrators decide about other
// drivers.
func TestRenderForMonitoring(t *testing.T) {
	t.Parallel()
	driver, err := registry.Get("ebs")
	require.NoError(t, err)
	for permanent, want := range map[bool]string{true: "true", false: ""} {
		found := 0
		for _, m := range render(driver, func(env string) string { return env }, driver.Namespace, permanent).manifests {
			got := m.Object.GetLabels()[monitoringLabel]
			if m.Object.GetKind() != "Namespace" {
				assert.Emptyf(t, got, "the label of %s %s, which Namespaces alone have", m.Object.GetKind(), m.Object.GetName())
				continue
			}
			found++
			assert.Equalf(t, want, got, "the label of the Namespace, as a part of the platform: %v", permanent)
		}
		assert.Equal(t, 1, found, "Namespaces")
	}
}
