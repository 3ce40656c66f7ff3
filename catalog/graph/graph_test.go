package graph

import (
	"encoding/xml"
	"errors"
	"flag"
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

// load reads the catalog that the tests draw: one package with all that its bundles are, and one with
// everything that can be said of updates.
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

// TestDrawings holds each drawing against a golden file.
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

// TestSVGIsXML makes sure that what people have written into a catalog is text in a drawing.
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

// TestLanes has skipRanges beside each other where they would cross.
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
