package fbc_test

import (
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestParse: documents in memory are checked as those in files are, and bundles keep their payload.
func TestParse(t *testing.T) {
	object := catalogs.Bundle("tide", "tide.v1.0.0")
	object.Image = ""
	object.Properties = append(object.Properties,
		property.MustBuildBundleObject([]byte(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"tide.v1.0.0"}}`)))
	config := &declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tide", DefaultChannel: "stable"}},
		Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Package: "tide", Name: "stable", Entries: []declcfg.ChannelEntry{{Name: "tide.v1.0.0"}, {Name: "tide.v1.1.0"}}}},
		Bundles:  []declcfg.Bundle{object, catalogs.Bundle("tide", "tide.v1.1.0")},
	}
	c, faults, err := fbc.Parse("here", config)
	require.NoError(t, err)
	require.Empty(t, faults)
	for name, want := range map[string]bool{"tide.v1.0.0": true, "tide.v1.1.0": false} {
		details, err := c.Find("tide").FindBundle(name).Details()
		require.NoError(t, err)
		assert.Equalf(t, want, details.CSV != nil && details.Carried, "%s contains its ClusterServiceVersion", name)
	}

	object.Properties = append(object.Properties, property.MustBuildBundleObject([]byte(`{}`)))
	config.Bundles[0] = object
	_, faults, err = fbc.Parse("here", config)
	if err != nil || len(faults) != 1 || faults[0].Rule != fbc.Object.ID || faults[0].File != "here" {
		t.Errorf("got findings %v, error %v; want one about an object without a kind", faults, err)
	}
}
