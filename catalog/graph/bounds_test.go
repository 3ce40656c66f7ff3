package graph

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
)

// document is a document of a catalog.
type document = map[string]any

func packageOf(name string, channels, bundles int, entry func(channel, i int) document, change func(bundle document)) (all []document) {
	all = append(all, document{"schema": "olm.package", "name": name, "defaultChannel": "0"})
	for c := range channels {
		var entries []document
		for i := range bundles {
			entries = append(entries, entry(c, i))
		}
		all = append(all, document{"schema": "olm.channel", "package": name, "name": fmt.Sprint(c), "entries": entries})
	}
	for i := range bundles {
		b := document{"schema": "olm.bundle", "package": name, "name": fmt.Sprintf("tide.v1.%d.0", i), "image": "example.com/tide:v1",
			"properties": []document{{"type": "olm.package", "value": document{"packageName": name, "version": fmt.Sprintf("1.%d.0", i)}}}}
		change(b)
		all = append(all, b)
	}
	return all
}

// sameMinor makes all bundles patches of one minor version.
func sameMinor() func(bundle document) {
	patch := 0
	return func(b document) {
		b["properties"] = []document{{"type": "olm.package", "value": document{"packageName": b["package"], "version": fmt.Sprintf("1.0.%d", patch)}}}
		patch++
	}
}

// lifecycleOf is the lifecycle of version 1.0, with so many phases and platforms, and texts in them.
func lifecycleOf(name string, n int, text string) document {
	phase := document{"name": text, "startDate": "2024-01-01", "endDate": "2024-12-31"}
	platform := document{"name": text, "versions": slices.Repeat([]string{text}, n)}
	return document{"schema": "io.openshift.operators.lifecycles.v1alpha1", "package": name, "versions": []document{
		{"name": "1.0", "phases": slices.Repeat([]document{phase}, n), "platformCompatibility": slices.Repeat([]document{platform}, min(n, 20))}}}
}

// TestBounds: the size of a drawing and of the page is linear in the size of the catalog. A text that the catalog refers to many
// times is in them once, or shortened.
func TestBounds(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	replacing := func(_, i int) document {
		return document{"name": fmt.Sprintf("tide.v1.%d.0", i), "replaces": fmt.Sprintf("tide.v1.%d.0", i-1)}
	}
	ranged := func(c, i int) document {
		e := replacing(c, i)
		e["skipRange"] = ">=0.0.0 <9999.0.0"
		return e
	}
	same := func(document) {}
	for name, documents := range map[string]func() []document{
		"packages": func() (all []document) {
			for i := range 2000 {
				all = append(all, packageOf(fmt.Sprintf("tide-%d", i), 1, 1, replacing, same)...)
			}
			return all
		},
		"range":                           func() []document { return packageOf("tide", 1, 5000, ranged, same) },
		"ranges in each of many channels": func() []document { return packageOf("tide", 100, 140, ranged, same) },
		"a long name": func() []document {
			return packageOf("tide", 1, 2000, func(c, i int) document {
				e := replacing(c, i)
				if i == 0 {
					var skips []string
					for j := range 2000 {
						skips = append(skips, fmt.Sprint(j))
					}
					e["name"], e["skips"] = long, skips
				}
				return e
			}, same)
		},
		"very many skips": func() []document {
			return packageOf("tide", 1, 3000, func(c, i int) document {
				e, skips := replacing(c, i), []string(nil)
				for j := range 100 {
					skips = append(skips, fmt.Sprintf("x%d-%d", i, j))
				}
				e["skips"] = skips
				return e
			}, same)
		},
		"a long version in many channels": func() []document {
			return packageOf("tide", 1000, 1, replacing, func(b document) {
				b["properties"] = []document{{"type": "olm.package", "value": document{"packageName": "tide", "version": "1.0.0-" + long}}}
			})
		},
		"a long deprecation in many channels": func() []document {
			return append(packageOf("tide", 1000, 1, replacing, same), document{"schema": "olm.deprecations", "package": "tide", "entries": []document{
				{"reference": document{"schema": "olm.bundle", "name": "tide.v1.0.0"}, "message": long}}})
		},
		"a long channel": func() []document {
			all := packageOf("tide", 1, 2000, replacing, same)
			all[0]["defaultChannel"], all[1]["name"] = long, long
			return all
		},
		"a long description and icon": func() []document {
			all := packageOf("tide", 1, 2000, replacing, same)
			all[0]["description"], all[0]["icon"] = long, document{"mediatype": "image/png", "base64data": strings.Repeat("xxxx", 25_000)}
			return all
		},
		"a long phase, platform and version of a platform for many versions": func() []document {
			return append(packageOf("tide", 1, 2000, replacing, sameMinor()), lifecycleOf("tide", 1, long))
		},
		"many phases and platforms for many versions": func() []document {
			return append(packageOf("tide", 1, 2000, replacing, sameMinor()), lifecycleOf("tide", 1000, "x"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			encoder := json.NewEncoder(&text)
			for _, d := range documents() {
				require.NoError(t, encoder.Encode(d))
			}
			dir := t.TempDir()
			write(t, dir, "catalog.json", text.String())
			c, _, err := fbc.Read(t.Context(), dir)
			require.NoError(t, err)
			p := &Page{Packages: Of(c.Packages...)}
			var page strings.Builder
			require.NoError(t, p.Write(&page))
			sizes := map[string]int{"page": page.Len() / text.Len()}
			for _, drawn := range p.Packages[:1] {
				for format, drawing := range map[string]string{"mermaid": drawn.Mermaid(), "dot": drawn.DOT(), "svg": drawn.SVG()} {
					sizes[format] = len(drawing) / text.Len()
				}
			}
			if drawn := p.Packages[0].Channels[0]; name == "very many skips" && (len(drawn.Nodes) > 30_000 || !strings.Contains(p.Packages[0].SVG(), "too many skips to draw")) {
				t.Errorf("%d versions are drawn, want those of the channel and at most 20,000 that it skips, and the drawing to say so", len(drawn.Nodes))
			}
			t.Logf("of %d bytes: %v times as large", text.Len(), sizes)
			for format, times := range sizes {
				assert.LessOrEqualf(t, times, 12, "how many times as large as the catalog of %d bytes %s is", text.Len(), format)
			}
		})
	}
}
