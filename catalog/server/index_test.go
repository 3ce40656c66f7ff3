package server

import (
	"testing"

	"github.com/operator-framework/operator-registry/pkg/registry"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/test/catalogs"
)

// TestQuestionsAreAnsweredFromAnIndex: the cost of a request does not grow with the catalog, so that clients cannot keep
// the server busy with small requests.
func TestQuestionsAreAnsweredFromAnIndex(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, catalogs.Generate(dir, catalogs.Kind{Packages: 20, Bundles: 300}))
	c, err := Options{}.open(t.Context(), dir)
	require.NoError(t, err)
	defer c.Close()
	for name, ask := range map[string]func() ([]*registry.ChannelEntry, error){
		"providers": func() ([]*registry.ChannelEntry, error) {
			return c.GetChannelEntriesThatProvide(t.Context(), "a", "b", "c")
		},
		"latest providers": func() ([]*registry.ChannelEntry, error) {
			return c.GetLatestChannelEntriesThatProvide(t.Context(), "a", "b", "c")
		},
		"replacements": func() ([]*registry.ChannelEntry, error) { return c.GetChannelEntriesThatReplace(t.Context(), "a") },
	} {
		allocations := testing.AllocsPerRun(10, func() {
			if found, err := ask(); err == nil || len(found) > 0 {
				t.Errorf("%s: found %v, %v", name, found, err)
			}
		})
		if allocations > 20 {
			t.Errorf("%s: nothing is found with %v allocations in a catalog of 300 bundles, want at most 20", name, allocations)
		}
	}
}
