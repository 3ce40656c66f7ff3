package graph

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/fbc"
)

var update = flag.Bool("update", false, "write the golden files")

// load reads the catalog that the tests draw: one package with complete bundles, and one with every kind of upgrade edge.
func load(t *testing.T) *fbc.Catalog {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../testdata/catalog")); err != nil {
		t.Fatal(err)
	}
	reef, err := os.ReadFile("testdata/reef.yaml")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "reef.yaml"), reef, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := rules.Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDrawings compares each drawing with a golden file.
func TestDrawings(t *testing.T) {
	c := load(t)
	for _, name := range []string{"reef", "tide"} {
		p := Of(c.Find(name))
		for format, drawing := range map[string]string{"mermaid": p.Mermaid(), "dot": p.DOT(), "svg": p.SVG()} {
			golden := filepath.Join("testdata", name+"."+format)
			if *update {
				if err := os.WriteFile(golden, []byte(drawing), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), drawing); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		}
	}
}

// TestSVGIsXML: text from a catalog is text in a drawing.
func TestSVGIsXML(t *testing.T) {
	for _, p := range load(t).Packages {
		decoder := xml.NewDecoder(strings.NewReader(Of(p).SVG()))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDefaultChannelComesFirst has many later versions in other channels: the head of each channel is at its top all the
// same, the default channel's at the left.
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
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(document.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := rules.Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range Of(c.Find("tide")).Channels {
		got = append(got, c.Name+" "+c.Nodes[0].label())
		if c.Nodes[0].Row != 0 {
			t.Errorf("the head of %s is in row %d", c.Name, c.Nodes[0].Row)
		}
	}
	if diff := cmp.Diff([]string{"stable 1.1.29 (head)", "alpha 1.9.29 (head)", "beta 1.5.29 (head)"}, got); diff != "" {
		t.Errorf("the top of each channel (-want +got):\n%s", diff)
	}
}

// TestPassedVersions: OLM updates to no version that another one skips, wherever replaces and skips lead.
func TestPassedVersions(t *testing.T) {
	var got []string
	for _, c := range Of(load(t).Find("reef")).Channels {
		for _, n := range c.Nodes {
			if n.Passed {
				got = append(got, fmt.Sprintf("%s %s skipped by %s", c.Name, n.Version, n.SkippedBy))
			}
		}
	}
	want := []string{"stable 1.1.0 skipped by 1.1.1", "<b>old</b> 1.1.0 skipped by 1.2.0", "<b>old</b> 1.0.0 skipped by 1.1.0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("passed versions (-want +got):\n%s", diff)
	}
}

// TestLanes: skipRanges that would overlap are next to each other.
func TestLanes(t *testing.T) {
	for _, c := range Of(load(t).Find("reef")).Channels {
		if c.Name != "stable" {
			continue
		}
		got := map[string]int{}
		for _, l := range lanes(c) {
			got[l.to.Version] = l.place
		}
		if diff := cmp.Diff(map[string]int{"1.1.1": 1, "2.0.0": 0}, got); diff != "" {
			t.Errorf("places (-want +got):\n%s", diff)
		}
	}
}
