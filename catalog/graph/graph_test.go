package graph

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/test/catalogs"
)

var update = flag.Bool("update", false, "write the golden files")

// load reads the catalog that the tests draw: one package with complete bundles, and one with every kind of upgrade edge.
func load(t *testing.T) *fbc.Catalog { return loadWith(t, nil).Catalog }

// loadFaulty adds a package with faults, a package with too many faults to draw, and a document that cannot be read.
func loadFaulty(t *testing.T) *rules.Part {
	t.Helper()
	shoal, err := os.ReadFile("testdata/shoal.yaml")
	require.NoError(t, err)
	return loadWith(t, map[string]string{
		"shoal.yaml": string(shoal),
		"wreck.yaml": "schema: olm.package\nname: wreck\ndefaultChannel: stable\n",
		"torn/a.yml": "schema: olm.package\nname: [torn\n",
	})
}

func loadWith(t *testing.T, files map[string]string) *rules.Part {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../testdata/catalog")))
	reef, err := os.ReadFile("testdata/reef.yaml")
	require.NoError(t, err)
	write(t, dir, "reef.yaml", string(reef))
	for name, text := range files {
		write(t, dir, name, text)
	}
	c, err := rules.LoadPart(t.Context(), dir, rules.Look)
	require.NoError(t, err)
	return c
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	require.NoError(t, err)
}

// TestDrawings compares each drawing with a golden file.
func TestDrawings(t *testing.T) {
	c := loadFaulty(t)
	for _, name := range []string{"reef", "shoal", "tide"} {
		p := Of(c.Find(name))[0]
		for format, drawing := range map[string]string{"mermaid": p.Mermaid(), "dot": p.DOT(), "svg": p.SVG()} {
			golden := filepath.Join("testdata", name+"."+format)
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(drawing), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Emptyf(t, cmp.Diff(string(want), drawing), "%s (-want +got)", golden)
		}
	}
}

// TestPicture: the picture in the README is the program's drawing of a package.
func TestPicture(t *testing.T) {
	const path = "../../docs/pictures/graph.svg"
	text, err := os.ReadFile("testdata/buoy.yaml")
	require.NoError(t, err)
	drawing := Of(loadWith(t, map[string]string{"buoy.yaml": string(text)}).Find("buoy"))[0].SVG()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(drawing), 0o644))
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != drawing {
		t.Errorf("%s is another picture (%v); go test ./catalog/graph -run TestPicture -update writes it", path, err)
	}
}

// TestSVGIsXML: text from a catalog is text in a drawing.
func TestSVGIsXML(t *testing.T) {
	for _, p := range load(t).Packages {
		decoder := xml.NewDecoder(strings.NewReader(Of(p)[0].SVG()))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
		}
	}
}

// TestDefaultChannelComesFirst: the head of each channel is at its top and the default channel is the leftmost, even if
// other channels have many later versions.
func TestDefaultChannelComesFirst(t *testing.T) {
	var document strings.Builder
	document.WriteString("schema: olm.package\nname: tide\ndefaultChannel: stable\n")
	for channel, minor := range map[string]int{"alpha": 9, "beta": 5, "stable": 1} {
		fmt.Fprintf(&document, "---\nschema: olm.channel\npackage: tide\nname: %s\nentries:\n", channel)
		for patch := range 30 {
			fmt.Fprintf(&document, "- {name: tide.v1.%d.%d, replaces: tide.v1.%d.%d}\n", minor, patch, minor, patch-1)
		}
		for patch := range 30 {
			fmt.Fprintf(&document, "---\nschema: olm.bundle\npackage: tide\nname: tide.v1.%d.%d\nimage: example.com/tide:v1\n"+
				"properties: [{type: olm.package, value: {packageName: tide, version: 1.%d.%d}}]\n", minor, patch, minor, patch)
		}
	}
	c, err := rules.Load(t.Context(), folder(t, document.String()))
	require.NoError(t, err)
	var got []string
	for _, c := range Of(c.Find("tide"))[0].Channels {
		got = append(got, c.Name+" "+c.Nodes[0].label())
		assert.Zerof(t, c.Nodes[0].Row, "the row of the head of %s", c.Name)
	}
	assert.Empty(t, cmp.Diff([]string{"stable 1.1.29 (head)", "alpha 1.9.29 (head)", "beta 1.5.29 (head)"}, got), "the top of each channel (-want +got)")
}

// TestNewestChannelsFirst: versions of heads count, then those in the names of channels.
func TestNewestChannelsFirst(t *testing.T) {
	var document strings.Builder
	document.WriteString("schema: olm.package\nname: tide\ndefaultChannel: main\n")
	for _, c := range []struct{ name, entries string }{
		{"stable-v1.9", "{name: tide.v1.9.0}"},
		{"stable-v1.10", "{name: tide.v1.10.0, replaces: tide.v1.9.0}, {name: tide.v1.9.0}"},
		{"alpha", "{name: tide.v1.10.0}"},
		{"main", "{name: tide.v1.10.0}"},
		{"candidate", "{name: tide.v2.0.0-rc.1}"},
		{"two heads", "{name: tide.v1.9.0}, {name: tide.v1.11.0}"},
		{"unknown", "{name: surge}"},
		{"4", "{name: tide.v1.9.0}"},
		{"4.10", "{name: tide.v1.9.0}"},
		{"99999999999999999999", "{name: tide.v1.9.0}"},
	} {
		fmt.Fprintf(&document, "---\nschema: olm.channel\npackage: tide\nname: %q\nentries: [%s]\n", c.name, c.entries)
	}
	c, _, err := fbc.Read(t.Context(), folder(t, document.String()))
	require.NoError(t, err)
	names := func(channels []*Channel) (all []string) {
		for _, c := range channels {
			all = append(all, c.Name)
		}
		return all
	}
	drawn := Of(c.Find("tide"))[0].Channels
	assert.EqualValues(t, "main", names(drawn)[0], "the first drawn channel")
	slices.SortFunc(drawn, newestFirst)
	want := []string{"candidate", "two heads", "main", "stable-v1.10", "alpha", "4.10", "4", "stable-v1.9", "99999999999999999999", "unknown"}
	assert.Empty(t, cmp.Diff(want, names(drawn)), "the channels of the overview (-want +got)")
}

// folder returns a folder with a catalog.
func folder(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "catalog.yaml", text)
	return dir
}

// TestPassedVersions: OLM updates to no version that another one skips, wherever replaces and skips lead.
func TestPassedVersions(t *testing.T) {
	var got []string
	for _, c := range Of(load(t).Find("reef"))[0].Channels {
		for _, n := range c.Nodes {
			if n.Passed {
				got = append(got, fmt.Sprintf("%s %s skipped by %s", c.Name, n.Version, n.SkippedBy))
			}
		}
	}
	want := []string{"stable 1.1.0 skipped by 1.1.1", "<b>old</b> 1.1.0 skipped by 1.2.0", "<b>old</b> 1.0.0 skipped by 1.1.0"}
	assert.Empty(t, cmp.Diff(want, got), "passed versions (-want +got)")
}

// TestLanes: skipRanges that would overlap are next to each other.
func TestLanes(t *testing.T) {
	for _, c := range Of(load(t).Find("reef"))[0].Channels {
		if c.Name != "stable" {
			continue
		}
		got := map[string]int{}
		for _, l := range lanes(c) {
			got[l.to.Version] = l.place
		}
		assert.Empty(t, cmp.Diff(map[string]int{"1.1.1": 1, "2.0.0": 0}, got), "places (-want +got)")
	}
}

// TestOPMFindsNoFault: opm accepts the package of the picture.
func TestOPMFindsNoFault(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("testdata/buoy.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "buoy.yaml"), text, 0o644))
	if out, err := exec.CommandContext(t.Context(), catalogs.OPM(t), "validate", dir).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}
