package build

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/openshift"
)

// FuzzTemplate builds catalogs from any text and two bundles. Every finding is at a position in the template.
func FuzzTemplate(f *testing.F) {
	archives, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(archives) == 0 {
		f.Fatal(archives, err)
	}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		require.NoError(f, err)
		f.Add(archive.Files[0].Data)
	}
	templates, err := filepath.Glob("testdata/opm/*")
	if err != nil || len(templates) == 0 {
		f.Fatal(templates, err)
	}
	for _, path := range templates {
		text, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(text)
	}
	whole, err := os.ReadFile("testdata/tide.yaml")
	require.NoError(f, err)
	f.Add(whole)
	var bundles []*render.Bundle
	for _, version := range []string{"0.2.0", "0.1.0"} {
		rendered, err := render.Folder("../testdata/bundles/tide/" + version)
		require.NoError(f, err)
		bundles = append(bundles, rendered)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, made := buildFuzzed(text, bundles)
		for _, found := range all {
			if found.File != "testdata/fuzzed.yaml" || found.Line < 1 || found.Column < 0 {
				t.Errorf("a finding about nothing: %s", found)
			}
		}
		if len(all) == 0 && made < 1 {
			t.Errorf("made %d catalogs", made)
		}
	})
}

// buildFuzzed builds the catalogs of a template, with other bundles instead of those that it names.
func buildFuzzed(text []byte, bundles []*render.Bundle) (found []*findings.Finding, made int) {
	v := openshift.Version{Major: 4, Minor: 16}
	b := builderOf(sourceFile{path: "testdata/fuzzed.yaml", content: text}, Options{StrandNobody: len(text)%2 == 0})
	switch b := b.(type) {
	case *draft:
		if b.decoded {
			b.rendered = bundles
			b.makeCatalog()
		}
	case *opmTemplate:
		s := &bundleSet{bundles: map[reference]*bundleResult{}}
		for i, r := range b.references() {
			whole, err := bundles[i%len(bundles)].In(render.Whole)
			if err != nil {
				panic(err)
			}
			lean, err := withoutPayload(whole)
			if err != nil {
				panic(err)
			}
			s.bundles[r] = &bundleResult{held: &storedBundle{document: lean}}
		}
		b.take(s)
	}
	found = *b.findings()
	if findings.Count(found, findings.Error) > 0 || len(b.packages()) == 0 {
		return found, 1 - len(found)
	}
	for _, of := range []target{{version: &v}, {}} {
		var catalogs []*Catalog
		catalogs, found = b.catalogs(context.Background(), of)
		made = len(catalogs)
	}
	return append(found, *b.findings()...), made
}
