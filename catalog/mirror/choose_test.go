package mirror_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/rules"
)

// catalogOf writes a catalog with a package tide that has channels, each a list of entries: version, what it replaces, and
// then in any order "skips VERSION" and "range RANGE". A version of four numbers is a rebuild, 1.0.0.2 of 1.0.0+2.
func catalogOf(t *testing.T, defaultChannel string, channels map[string][]string) string {
	t.Helper()
	text := "schema: olm.package\nname: tide\ndefaultChannel: " + defaultChannel + "\n"
	bundles := map[string]bool{}
	for name, entries := range channels {
		text += "---\nschema: olm.channel\npackage: tide\nname: " + name + "\nentries:\n"
		for _, entry := range entries {
			parts := strings.Split(entry, ", ")
			text += "- name: tide.v" + parts[0] + "\n"
			bundles[parts[0]] = true
			for _, part := range parts[1:] {
				switch kind, value, _ := strings.Cut(part, " "); kind {
				case "replaces":
					text += "  replaces: tide.v" + value + "\n"
				case "skips":
					text += "  skips: [tide.v" + value + "]\n"
				case "range":
					text += "  skipRange: '" + value + "'\n"
				}
			}
		}
	}
	for name := range bundles {
		version := name
		if strings.Count(name, ".") == 3 { // a rebuild
			last := strings.LastIndex(name, ".")
			version = name[:last] + "+" + name[last+1:]
		}
		text += fmt.Sprintf("---\nschema: olm.bundle\npackage: tide\nname: tide.v%[1]s\nimage: quay.io/example/tide:%[1]s\nproperties:\n- {type: olm.package, value: {packageName: tide, version: %[2]s}}\n", name, version)
	}
	text += "---\nschema: olm.deprecations\npackage: tide\nentries:\n- {reference: {schema: olm.package}, message: all of it}\n- {reference: {schema: olm.channel, name: " + defaultChannel + "}, message: the channel}\n"
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(text), 0o644))
	return dir
}

// line is a channel whose entries replace each other, with a version that is skipped.
var line = []string{"1.0.0", "1.1.0, replaces 1.0.0", "1.2.0, replaces 1.1.0", "2.0.0, replaces 1.1.0, skips 1.2.0", "2.1.0, replaces 2.0.0"}

func TestChoose(t *testing.T) {
	byRange := []string{"1.0.0", "1.1.0, range <1.1.0", "1.2.0, range <1.2.0, replaces 1.1.0, skips 1.0.0"}
	rebuilds := []string{"1.0.0.1", "1.0.0.2, replaces 1.0.0.1", "1.0.0.10, replaces 1.0.0.2"}
	for _, tc := range []struct {
		name           string
		defaultChannel string
		channels       map[string][]string
		selections     []string
		defaults       map[string]string
		want           string // channels with their entries, or the error
	}{
		{"everything", "stable", map[string][]string{"stable": line}, nil, nil, "stable! 2.1.0: 1.0.0 1.1.0 1.2.0 2.0.0 2.1.0"},
		{"one package", "stable", map[string][]string{"stable": line}, []string{"tide"}, nil, "stable! 2.1.0: 1.0.0 1.1.0 1.2.0 2.0.0 2.1.0"},
		{"from a version on: what the first one replaces may be missing", "stable", map[string][]string{"stable": line}, []string{"tide@>=2.0.0"}, nil, "stable! 2.1.0: 2.0.0 2.1.0"},
		{"without the head: the latest one is the head", "stable", map[string][]string{"stable": line}, []string{"tide@<2.0.0"}, nil, "stable! 1.2.0: 1.0.0 1.1.0 1.2.0"},
		{"the head only", "stable", map[string][]string{"stable": line}, []string{"tide@head"}, nil, "stable! 2.1.0: 2.1.0"},
		{"a gap: updates go through what is between", "stable", map[string][]string{"stable": line}, []string{"tide@1.0.0", "tide@head"}, nil, "stable! 2.1.0: 1.0.0 1.1.0 2.0.0 2.1.0, between 1.1.0 2.0.0"},
		{"two heads, one in the other's skipRange", "stable", map[string][]string{"stable": byRange}, []string{"tide@<1.2.0"}, nil, "stable! 1.1.0: 1.0.0 1.1.0, skips 1.0.0"},
		{"two heads", "stable", map[string][]string{"stable": {"1.0.0", "1.1.0", "2.0.0, replaces 1.1.0, skips 1.0.0"}}, []string{"tide@<2.0.0"}, nil,
			`channel "stable" of package "tide" would have 2 heads, tide.v1.1.0, tide.v1.0.0, and OLM resolves nothing from such a channel; choose the whole channel, "tide/stable", or its head alone, "tide/stable@head"`},
		{"the update between two versions skips one of them", "stable", map[string][]string{"stable": {"1.8.0", "1.9.0, replaces 1.8.0", "1.9.1, replaces 1.8.0, skips 1.9.0", "1.10.0, replaces 1.9.1"}},
			[]string{"tide@1.9.0", "tide@head"}, nil, "stable! 1.10.0: 1.9.0 1.9.1 1.10.0, between 1.9.1"},
		{"two updates by skips", "stable", map[string][]string{"stable": {"1.0.0", "1.1.0, skips 1.0.0", "1.2.0, skips 1.1.0", "1.3.0, replaces 1.2.0"}},
			[]string{"tide@1.0.0", "tide@head"}, nil, "stable! 1.3.0: 1.0.0 1.1.0 1.2.0 1.3.0, between 1.1.0 1.2.0"},
		{"OLM passes by a chosen version, and edges lead to it", "stable", map[string][]string{"stable": {"1.0.0", "1.0.1, skips 1.0.0", "1.1.0, replaces 1.0.1", "2.0.0, replaces 1.1.0, skips 1.0.0"}},
			[]string{"tide@1.0.0", "tide@1.1.0"}, nil, "stable! 1.1.0: 1.0.0 1.0.1 1.1.0, between 1.0.1"},
		{"one of several rebuilds", "stable", map[string][]string{"stable": rebuilds}, []string{"tide@1.0.0+2"}, nil, "stable! 1.0.0.2: 1.0.0.2"},
		{"two of several rebuilds", "stable", map[string][]string{"stable": rebuilds}, []string{"tide@1.0.0+2 || =1.0.0+10"}, nil, "stable! 1.0.0.10: 1.0.0.2 1.0.0.10"},
		{"from a rebuild on", "stable", map[string][]string{"stable": rebuilds}, []string{"tide@>=1.0.0+2"}, nil, "stable! 1.0.0.10: 1.0.0.2 1.0.0.10"},
		{"up to a rebuild", "stable", map[string][]string{"stable": rebuilds}, []string{"tide@>= 0.9.0 <= 1.0.0+2"}, nil, "stable! 1.0.0.2: 1.0.0.1 1.0.0.2"},
		{"all rebuilds", "stable", map[string][]string{"stable": rebuilds}, []string{"tide@1.0.0"}, nil, "stable! 1.0.0.10: 1.0.0.1 1.0.0.2 1.0.0.10"},
		{"a rebuild that is not there", "stable", map[string][]string{"stable": rebuilds}, []string{"tide@1.0.0+3"}, nil, `tide@1.0.0\+3: no version of package "tide" is in that range; .*`},
		{"stranded: what replaced it is left out", "stable", map[string][]string{"stable": {"1.0.0", "1.5.0, replaces 1.0.0", "2.0.0, replaces 1.5.0, skips 1.0.0", "3.0.0, replaces 2.0.0, skips 1.5.0"}},
			[]string{"tide@1.0.0 || 1.5.0 || >=3.0.0"}, nil, "stable! 3.0.0: 1.0.0 1.5.0 2.0.0 3.0.0, between 2.0.0"},
		{"another channel's versions are left out with it", "stable", map[string][]string{"stable": line, "fast": {"3.0.0"}}, []string{"tide/stable"}, nil, "stable! 2.1.0: 1.0.0 1.1.0 1.2.0 2.0.0 2.1.0"},
		{"the only channel becomes the default", "stable", map[string][]string{"stable": line, "fast": {"3.0.0"}}, []string{"tide/fast"}, nil, "fast! 3.0.0: 3.0.0"},
		{"no default channel", "stable", map[string][]string{"stable": line, "fast": {"3.0.0"}, "slow": {"0.1.0"}}, []string{"tide/fast", "tide/slow"}, nil,
			`package "tide" has the default channel "stable", which is not among the channels to mirror, (fast, slow|slow, fast); add it with --package tide/stable, or choose another with --default-channel tide=CHANNEL`},
		{"another default channel", "stable", map[string][]string{"fast": {"3.0.0"}, "slow": {"0.1.0"}, "stable": line}, []string{"tide/fast", "tide/slow"}, map[string]string{"tide": "slow"}, "(fast 3.0.0: 3.0.0; slow! 0.1.0: 0.1.0|slow! 0.1.0: 0.1.0; fast 3.0.0: 3.0.0)"},
		{"a default channel that is not there", "stable", map[string][]string{"stable": line}, []string{"tide"}, map[string]string{"tide": "slow"}, `default channel tide=slow: that channel is not among the channels to mirror, stable`},
		{"the default of a package that is not there", "stable", map[string][]string{"stable": line}, []string{"tide"}, map[string]string{"moon": "slow"}, `default channel moon=slow: package "moon" is not among the packages to mirror`},
		{"no such package", "stable", map[string][]string{"stable": line}, []string{"tied"}, nil, `tied: the catalog has no package "tied".*tide.*`},
		{"no such channel", "stable", map[string][]string{"stable": line}, []string{"tide/stabel"}, nil, `tide/stabel: package "tide" has no channel "stabel"; its channels are stable.*`},
		{"no such version", "stable", map[string][]string{"stable": line}, []string{"tide@>9.0.0"}, nil, `tide@>9.0.0: no version of package "tide" is in that range; .*`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			options := mirror.Options{Name: "sea", Tag: "latest", Jobs: 1, Choice: mirror.Choice{DefaultChannels: tc.defaults}}
			for _, text := range tc.selections {
				s, err := mirror.ParseSelection(text)
				require.NoError(t, err)
				options.Selections = append(options.Selections, s)
			}
			m, err := mirror.New(t.Context(), catalogOf(t, tc.defaultChannel, tc.channels), options)
			got := fmt.Sprint(err)
			if err == nil {
				defer m.Close()
				got = shown(m.Packages[0])
			}
			assert.Regexp(t, "^("+tc.want+")$", got)
		})
	}
}

// shown describes the kept parts of a package.
func shown(p mirror.Package) string {
	short := func(names []string) string { return strings.ReplaceAll(strings.Join(names, " "), "tide.v", "") }
	var channels []string
	for _, c := range p.Channels {
		text := c.Name
		if c.Name == p.DefaultChannel {
			text += "!"
		}
		text += " " + short([]string{c.Head}) + ": " + short(c.Entries)
		if len(c.Between) > 0 {
			text += ", between " + short(c.Between)
		}
		if len(c.Skips) > 0 {
			text += ", skips " + short(c.Skips)
		}
		channels = append(channels, text)
	}
	return strings.Join(channels, "; ")
}

// TestShippedCatalogs: every channel, every version and every range from a version on of the catalogs in this repository
// makes a valid catalog, or is refused before anything is copied.
func TestShippedCatalogs(t *testing.T) {
	for _, dir := range []string{"../certified", "../community"} {
		full, err := rules.Load(t.Context(), dir)
		require.NoError(t, err)
		for _, p := range full.Packages {
			selections := []string{p.Name, p.Name + "@head"}
			for _, c := range p.Channels {
				selections = append(selections, p.Name+"/"+c.Name, p.Name+"/"+c.Name+"@head")
			}
			for _, b := range p.Bundles {
				selections = append(selections, p.Name+"@"+b.Number().String(), p.Name+"@>="+b.Number().String(), p.Name+"@<="+b.Number().String())
			}
			for _, text := range selections {
				s, err := mirror.ParseSelection(text)
				require.NoError(t, err)
				m, err := mirror.New(t.Context(), dir, mirror.Options{Name: "sea", Tag: "latest", Choice: mirror.Choice{Selections: []mirror.Selection{s}}})
				if err != nil {
					assert.ErrorContains(t, err, "is not among the channels to mirror", text)
					continue
				}
				assert.NoError(t, m.Close())
			}
		}
	}
}

func TestParseSelection(t *testing.T) {
	for text, want := range map[string]string{
		"tide": "", "tide/stable": "", "tide@>=1.0.0 <2.0.0": "", "tide/stable@head": "", "tide@1.0.0": "",
		"": "want PACKAGE", "/stable": "want PACKAGE", "tide/": "want PACKAGE", "tide@": "want PACKAGE", "tide@latest": `"latest" is not a range of versions`,
	} {
		s, err := mirror.ParseSelection(text)
		if want == "" && (err != nil || s.String() != text) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q is %q: %v, want %q", text, s, err, want)
		}
	}
}

// TestNameOf: names of folders, files and images become valid names of catalogs.
func TestNameOf(t *testing.T) {
	for source, want := range map[string]string{"v4.20": "v4-20", "certified": "certified", "My_Catalog.yaml": "my-catalog-yaml", ".": ""} {
		assert.EqualValues(t, want, mirror.NameOf(source), source)
	}
}
