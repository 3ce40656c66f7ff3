package conversion_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/catalog/conversion"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestTemplateLikeOPM: real opm makes the same templates from the same catalogs, but for an empty line at the end.
func TestTemplateLikeOPM(t *testing.T) {
	opm := catalogs.OPM(t)
	for _, kind := range catalogs.Kinds {
		if kind.Inline {
			continue
		}
		kind.Packages, kind.Bundles = 1, 12
		dir := t.TempDir()
		require.NoError(t, catalogs.Generate(dir, kind))
		files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		for _, to := range []conversion.Kind{conversion.Basic, conversion.Substitutes} {
			for _, format := range conversion.Formats {
				t.Run(kind.Name+" "+string(to)+" "+format, func(t *testing.T) {
					want, err := exec.CommandContext(t.Context(), opm, "alpha", "convert-template", string(to), "-o", format, files[0]).Output()
					require.NoError(t, err)
					got, lost, err := conversion.Template(t.Context(), dir, to, format)
					require.NoError(t, err)
					require.Empty(t, lost)
					assert.Empty(t, cmp.Diff(strings.TrimRight(string(want), "\n"), strings.TrimRight(string(got), "\n")), "-opm +ours")
				})
			}
		}
	}
}

// TestThereAndBack: a catalog's template builds the same catalog again.
func TestThereAndBack(t *testing.T) {
	address := registry.Start(t, nil)
	dir := t.TempDir()
	digests := map[string]string{}
	for version, spec := range map[string]string{"1.0.0": "replaces: tide.v0.9.0", "1.1.0": "skips: [tide.v1.0.0]", "1.2.0": ""} {
		folder := filepath.Join(dir, version)
		catalogs.WriteBundle(t, folder, "tide", version, spec)
		digests[version] = catalogs.PushBundle(t, folder, "tide", address+"/tide:v"+version)
	}
	template := filepath.Join(dir, "first.yaml")
	catalogs.Write(t, template, "schema: berth.template\npackage: tide\ndefaultChannel: stable\ndescription: High and low.\nbundles:\n"+
		"- image: "+address+"/tide:v1.2.0\n- image: "+address+"/tide:v1.0.0\n- image: "+address+"/tide:v1.1.0\n"+
		"channels:\n- name: stable\n  entries: [{version: 1.0.0, replaces: ''}, {version: 1.1.0, skips: [], replaces: tide.v1.0.0}, {version: 1.2.0, skipRange: '>=1.0.0 <1.2.0'}]\n- name: fast\n"+
		"deprecations:\n- {bundle: 1.0.0, message: Old.}\n- {channel: fast, message: Slow.}\n- {package: tide, message: Ebb.}\n")
	want := built(t, template, render.Described)
	for _, kind := range conversion.Kinds {
		for _, format := range conversion.Formats {
			t.Run(string(kind)+" "+format, func(t *testing.T) {
				catalog := t.TempDir()
				catalogs.Write(t, filepath.Join(catalog, "tide.yaml"), want)
				text, lost, err := conversion.Template(t.Context(), catalog, kind, format, "tide")
				require.NoError(t, err)
				require.Empty(t, lost)
				again := filepath.Join(t.TempDir(), "again.yaml")
				catalogs.Write(t, again, string(text))
				assert.Emptyf(t, cmp.Diff(want, built(t, again, render.Described)), "-first +again, of\n%s", text)
			})
		}
	}
}

// built returns the documents that are built from a template without findings.
func built(t *testing.T, file string, format render.Format) string {
	t.Helper()
	b, err := build.Templates(t.Context(), []string{file}, build.Options{Format: format})
	require.NoError(t, err)
	defer b.Close()
	var text strings.Builder
	require.Lenf(t, b.Catalogs, 1, "%d catalogs, findings %v", len(b.Catalogs), b.Found)
	require.NoError(t, b.Catalogs[0].WriteDocuments(&text))
	return text.String()
}

// TestLost: Template reports what a template of Berth cannot express.
func TestLost(t *testing.T) {
	dir := t.TempDir()
	config := declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tide", DefaultChannel: "stable", Icon: &declcfg.Icon{Data: []byte("<svg/>"), MediaType: "image/svg+xml"}}},
		Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Package: "tide", Name: "stable", Entries: []declcfg.ChannelEntry{{Name: "tide.v1.0.0"}}}},
		Bundles:  []declcfg.Bundle{catalogs.Bundle("tide", "tide.v1.0.0")},
		Others:   []declcfg.Meta{{Schema: "sea.example.com", Package: "tide", Blob: []byte(`{"schema":"sea.example.com","package":"tide"}`)}},
	}
	catalogs.WriteConfig(t, dir, config)
	_, lost, err := conversion.Template(t.Context(), dir, conversion.Berth, "yaml")
	require.NoError(t, err)
	want := []string{"the icon; the package gets the icon of its default channel's head, unless the field icon names a file", "a document of schema sea.example.com"}
	assert.Empty(t, cmp.Diff(want, lost), "-want +got")
}

// TestFaults: errors name the place of documents that no template can express.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	inline := catalogs.Bundle("tide", "tide.v1.0.0")
	inline.Image = ""
	catalogs.WriteConfig(t, dir, declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tide"}, {Schema: declcfg.SchemaPackage, Name: "moon"}},
		Bundles:  []declcfg.Bundle{inline},
	})
	second := catalogs.Bundle("tide", "tide.v1.1.0")
	second.Image = ""
	several := t.TempDir()
	catalogs.WriteConfig(t, several, declcfg.DeclarativeConfig{Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tide"}}, Bundles: []declcfg.Bundle{inline, second}})
	two := t.TempDir()
	catalogs.WriteConfig(t, two, declcfg.DeclarativeConfig{Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tide"}, {Schema: declcfg.SchemaPackage, Name: "moon"}}})
	broken := t.TempDir()
	catalogs.Write(t, filepath.Join(broken, "a.yaml"), "a: [\n")
	for name, tc := range map[string]struct {
		dir, want string
		kind      conversion.Kind
		packages  []string
	}{
		"no image":   {dir, `catalog.json:6: bundle "tide.v1.0.0" has no image`, conversion.Basic, []string{"tide"}},
		"no images":  {several, `bundle "tide.v1.0.0" and 1 more have no image`, conversion.Basic, []string{"tide"}},
		"two":        {two, "has 2 packages, moon, tide, and a template of Berth describes one", conversion.Berth, nil},
		"no package": {dir, `has no package "sun"`, conversion.Basic, []string{"sun"}},
		"malformed":  {broken, "a.yaml:1:1: malformed YAML", conversion.Substitutes, nil},
		"no folder":  {"nothing", "nothing", conversion.Basic, nil},
	} {
		if _, _, err := conversion.Template(t.Context(), tc.dir, tc.kind, "yaml", tc.packages...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want one with %q", name, err, tc.want)
		}
	}
	if _, err := os.Stat("nothing"); err == nil {
		t.Error("there is a folder nothing")
	}
}
