package diff

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
)

// TestManyChannelsShareLargeHeads: what the heads of a few channels need is in each of them, and if thousands have the same large heads, the
// others say that they are not compared.
func TestManyChannelsShareLargeHeads(t *testing.T) {
	for name, test := range map[string]struct{ channels, apis, compared int }{
		"a few":     {20, 2000, 20},
		"thousands": {1000, 2000, 50}, // each takes about 670 KB
	} {
		t.Run(name, func(t *testing.T) {
			d, err := Compare(tideOf(t, test.channels, test.apis, "1.0.0"), tideOf(t, test.channels, test.apis, "1.0.0", "2.0.0"))
			require.NoError(t, err)
			require.Len(t, d.Packages, 1)
			require.Len(t, d.Packages[0].Channels, test.channels)
			compared := 0
			for _, c := range d.Packages[0].Channels {
				if c.Content.Unknown != tooMany {
					compared++
					assert.Len(t, c.Content.Dependencies, 2*test.apis)
				}
			}
			assert.Equal(t, test.compared, compared)
		})
	}
}

// tideOf returns a catalog whose channels all have the same versions. Each version needs other APIs.
func tideOf(t *testing.T, channels, apis int, versions ...string) *fbc.Catalog {
	t.Helper()
	var text strings.Builder
	fmt.Fprintln(&text, `{"schema": "olm.package", "name": "tide", "defaultChannel": "c0"}`)
	var entries []string
	for i, version := range versions {
		replaces := ""
		if i > 0 {
			replaces = fmt.Sprintf(`, "replaces": "tide.v%s"`, versions[i-1])
		}
		entries = append(entries, fmt.Sprintf(`{"name": "tide.v%s"%s}`, version, replaces))
		fmt.Fprintf(&text, `{"schema": "olm.bundle", "package": "tide", "name": "tide.v%s", "image": "quay.io/example/tide:%s", "properties": [
			{"type": "olm.package", "value": {"packageName": "tide", "version": "%[1]s"}}`, version, version)
		for api := range apis {
			fmt.Fprintf(&text, `, {"type": "olm.gvk.required", "value": {"group": "g%d.v%s.example.com", "kind": "Tide", "version": "v1"}}`, api, version)
		}
		fmt.Fprintln(&text, "]}")
	}
	for i := range channels {
		fmt.Fprintf(&text, `{"schema": "olm.channel", "package": "tide", "name": "c%d", "entries": [%s]}`+"\n", i, strings.Join(entries, ", "))
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(text.String()), 0o600))
	c, faults, err := fbc.Read(t.Context(), dir)
	require.NoError(t, err)
	require.Empty(t, faults)
	return c
}
