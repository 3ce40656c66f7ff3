package rules_test

import (
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/test/catalogs"
)

// community is the package aws-efs-operator before this project took it over: the versions of its channels,
// from the oldest to the newest. The channel staging had many more.
var community = map[string][]string{
	"stable":  {"0.0.1", "0.0.2", "0.0.3", "0.0.4", "0.0.5", "0.0.6", "0.0.7", "0.0.8"},
	"staging": {"0.1.1-1b6dd57", "0.1.99-c0ffee0", "0.1.150-9c87267"},
}

// TestShippedCatalogsUpdateTheCommunity: whichever of our catalogs replaces the community's, OLM updates every
// installed version of its operator, in the subscribed channel and in the channels that deprecation messages
// recommend.
func TestShippedCatalogsUpdateTheCommunity(t *testing.T) {
	const pkg, head = "aws-efs-operator", "aws-efs-operator.v1.0.0"
	before := communityCatalog(t, pkg)
	for _, dir := range []string{"../certified", "../community"} {
		now, err := rules.Load(t.Context(), dir)
		require.NoError(t, err)
		for _, found := range rules.Against(now, before) {
			assert.NotEqual(t, findings.Error, found.Severity, found)
		}
		for subscribed, versions := range community {
			for _, channel := range []string{subscribed, "stable", "preview"} {
				for _, version := range versions {
					w, err := prediction.Installed(now, pkg, version, channel)
					require.NoError(t, err)
					outcomes, err := w.Predict(t.Context())
					require.NoError(t, err)
					if got := outcomes[0]; got.Reaction != prediction.Updates || got.Next.Name != head || !got.ReachesHead {
						t.Errorf("%s, channel %s, from %s: got %+v, want an update to %s", dir, channel, version, got, head)
					}
				}
			}
		}
	}
}

// TestShippedCatalogsReplaceEachOther: clusters can switch from one catalog to the other, and back.
func TestShippedCatalogsReplaceEachOther(t *testing.T) {
	var both []*fbc.Catalog
	for _, dir := range []string{"../certified", "../community"} {
		c, err := rules.Load(t.Context(), dir)
		require.NoError(t, err)
		both = append(both, c)
	}
	for i, now := range both {
		for _, found := range rules.Against(now, both[1-i]) {
			t.Error(found)
		}
	}
}

// communityCatalog is the catalog of the community's operator.
func communityCatalog(t *testing.T, pkg string) *fbc.Catalog {
	t.Helper()
	config := declcfg.DeclarativeConfig{Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: pkg, DefaultChannel: "stable"}}}
	for name, versions := range community {
		channel := declcfg.Channel{Schema: declcfg.SchemaChannel, Package: pkg, Name: name}
		replaces := ""
		for _, version := range versions {
			bundle := catalogs.Bundle(pkg, pkg+".v"+version)
			channel.Entries = append(channel.Entries, declcfg.ChannelEntry{Name: bundle.Name, Replaces: replaces})
			config.Bundles = append(config.Bundles, bundle)
			replaces = bundle.Name
		}
		config.Channels = append(config.Channels, channel)
	}
	dir := t.TempDir()
	catalogs.WriteConfig(t, dir, config)
	c, err := rules.Load(t.Context(), dir)
	require.NoError(t, err)
	return c
}
