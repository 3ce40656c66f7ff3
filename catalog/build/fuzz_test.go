package build

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-csi/berth/catalog/render"
)

// FuzzTemplate builds catalogs from any text and two bundles. Every finding is at a position in the template.
func FuzzTemplate(f *testing.F) {
	archives, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(archives) == 0 {
		f.Fatal(archives, err)
	}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
	whole, err := os.ReadFile("testdata/tide.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	var bundles []*render.Bundle
	for _, version := range []string{"0.2.0", "0.1.0"} {
		rendered, err := render.Folder("../testdata/bundles/tide/" + version)
		if err != nil {
			f.Fatal(err)
		}
		bundles = append(bundles, rendered)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d := &draft{}
		if d.decode("testdata/fuzzed.yaml", text) {
			d.checkForm()
			d.rendered = bundles
			d.makeCatalog()
		}
		for _, found := range d.found {
			if found.File != "testdata/fuzzed.yaml" || found.Line < 1 || found.Column < 0 {
				t.Errorf("a finding about nothing: %s", found)
			}
		}
		if len(d.found) == 0 && len(d.config.Packages) != 1 {
			t.Errorf("made %d packages", len(d.config.Packages))
		}
	})
}
