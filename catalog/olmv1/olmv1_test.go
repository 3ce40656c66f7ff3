package olmv1

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/test/catalogs"
)

type fields = map[string]any

// bundle is a version of package tug, which replaces the previous one. It carries its ClusterServiceVersion and a CRD with one field
// of a type.
type bundle struct {
	version, field, mode string
	bare                 bool // it carries nothing
}

// catalog writes and reads a catalog of bundles.
func catalog(t *testing.T, bundles ...bundle) *fbc.Catalog {
	t.Helper()
	config := declcfg.DeclarativeConfig{Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tug", DefaultChannel: "stable"}}}
	channel := declcfg.Channel{Schema: declcfg.SchemaChannel, Package: "tug", Name: "stable"}
	before := ""
	for _, b := range bundles {
		name := "tug.v" + b.version
		declared := declcfg.Bundle{Schema: declcfg.SchemaBundle, Package: "tug", Name: name, Image: "registry.example.com/tug:v" + b.version,
			Properties: []property.Property{property.MustBuildPackage("tug", b.version)}}
		if !b.bare {
			for _, object := range []fields{b.csv(name), b.crd()} {
				data, err := json.Marshal(object)
				require.NoError(t, err)
				declared.Properties = append(declared.Properties, property.MustBuildBundleObject(data))
			}
		}
		config.Bundles = append(config.Bundles, declared)
		channel.Entries = append(channel.Entries, declcfg.ChannelEntry{Name: name, Replaces: before})
		before = name
	}
	config.Channels = []declcfg.Channel{channel}
	dir := t.TempDir()
	catalogs.WriteConfig(t, dir, config)
	c, err := rules.Load(t.Context(), dir)
	require.NoError(t, err)
	return c
}

func (b bundle) csv(name string) fields {
	return fields{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": fields{"name": name}, "spec": fields{
		"version": b.version, "installModes": []any{fields{"type": b.mode, "supported": true}},
		"install": fields{"strategy": "deployment", "spec": fields{"deployments": []any{}}}}}
}

func (b bundle) crd() fields {
	return fields{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": fields{"name": "tugs.example.com"}, "spec": fields{
		"group": "example.com", "scope": "Namespaced", "names": fields{"plural": "tugs", "kind": "Tug"}, "versions": []any{fields{"name": "v1", "served": true, "storage": true,
			"schema": fields{"openAPIV3Schema": fields{"type": "object", "properties": fields{"power": fields{"type": b.field}}}}}}}}
}

const all, own = "AllNamespaces", "OwnNamespace"

func checker(t *testing.T) *Checker {
	t.Helper()
	set, err := featuregates.Of(featuregates.Latest)
	require.NoError(t, err)
	return &Checker{Gates: set, Read: func(_ context.Context, b *fbc.Bundle) (*refusal.Bundle, error) { return refusal.FromCatalog(b) }}
}

// TestCheck: the bundles and the updates that OLM v1 refuses.
func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		bundles []bundle
		want    []string // a rule and a part of the message each
	}{
		"nothing":          {bundles: []bundle{{"1.0.0", "string", all, false}, {"1.1.0", "string", all, false}}},
		"an install mode":  {bundles: []bundle{{"1.0.0", "string", all, false}, {"1.1.0", "string", own, false}}, want: []string{"olm-v1-bundle", "tug.v1.1.0 does not support the install mode AllNamespaces"}},
		"a changed CRD":    {bundles: []bundle{{"1.0.0", "string", all, false}, {"1.1.0", "integer", all, false}}, want: []string{"olm-v1-update", "update from tug.v1.0.0 to tug.v1.1.0: CRD tugs.example.com changes"}},
		"not the manifest": {bundles: []bundle{{"1.0.0", "string", all, false}, {"1.1.0", "string", all, true}}, want: []string{"olm-v1-unread", "lacks the manifests of 1 bundles"}},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := checker(t).Check(t.Context(), catalog(t, test.bundles...))
			require.NoError(t, err)
			if test.want == nil {
				assert.Empty(t, found)
				return
			}
			if len(found) != 1 || found[0].Rule != test.want[0] || !strings.Contains(found[0].Message, test.want[1]) {
				t.Errorf("got %v, want %q", found, test.want)
			}
		})
	}
}

// TestAgainst: the installed versions for which OLM v1 does less than with the earlier catalog.
func TestAgainst(t *testing.T) {
	before := catalog(t, bundle{"1.0.0", "string", all, false}, bundle{"1.1.0", "string", all, false})
	now := catalog(t, bundle{"1.0.0", "string", all, false}, bundle{"1.1.0", "integer", all, false})
	found, err := checker(t).Against(t.Context(), now, before)
	require.NoError(t, err)
	if len(found) != 1 || !strings.Contains(found[0].Message, "on clusters with tug.v1.0.0, OLM v1 refuses") {
		t.Errorf("got %v, want one about tug.v1.0.0", found)
	}
	if found, err := checker(t).Against(t.Context(), before, before); err != nil || len(found) > 0 {
		t.Errorf("got %v, error %v, want nothing against itself", found, err)
	}
}
