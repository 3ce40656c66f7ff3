package cinder

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers"
)

// Tests that apply to every driver are in package drivers.

func manifests(t *testing.T) []drivers.Manifest {
	t.Helper()
	all, err := Driver.Manifests(drivers.Values{Namespace: Driver.Namespace, Image: func(env string) string { return env }})
	require.NoError(t, err)
	return all
}

// TestStorageClass: the class is never the default without an administrator, volumes are made where their pods run, and
// they can grow.
func TestStorageClass(t *testing.T) {
	classes := drivers.OfKind(manifests(t), "StorageClass")
	if len(classes) != 1 || Driver.ClusterStorage.DefaultClass != "" {
		t.Fatalf("the driver has %d classes, and the default %q; want one, and no default", len(classes), Driver.ClusterStorage.DefaultClass)
	}
	class := classes[0].Object
	if len(class.GetAnnotations()) > 0 || class.Object["volumeBindingMode"] != "WaitForFirstConsumer" || class.Object["allowVolumeExpansion"] != true {
		t.Errorf("the class is %v, want one that is not the default, waits for the first consumer, and can be expanded", class.Object)
	}
}

// TestNodesHaveNoCredentials: pods on every node have no credentials for the cloud.
func TestNodesHaveNoCredentials(t *testing.T) {
	for _, m := range drivers.OfKind(manifests(t), "DaemonSet") {
		for _, part := range append(Driver.Secrets, configDir+loginFile) {
			assert.NotContainsf(t, string(m.YAML), part, "%s: has %s", m.File, part)
		}
	}
}

func TestZonesUnsaid(t *testing.T) {
	for name, test := range map[string]struct {
		cloud, source map[string]string
		want          bool
	}{
		"nobody":                             {nil, nil, true},
		"others things":                      {map[string]string{"cloud.conf": ""}, map[string]string{"config": ""}, true},
		"in the configuration of the cloud":  {map[string]string{"enable_topology": "false"}, nil, false},
		"in the configuration of the driver": {nil, map[string]string{"enable_topology": "true"}, false},
	} {
		assert.Equal(t, test.want, zonesUnsaid(test.cloud, test.source), name)
	}
}
