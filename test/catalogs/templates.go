package catalogs

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// TemplateKind is the size of a template's bundles.
type TemplateKind struct {
	// Name is the name of the kind in reports.
	Name    string
	Bundles int
	// deeper is the generator's field of that name.
	deeper int
}

// The kinds of public templates: of an operator with many versions, and of one with large APIs.
var TemplateKinds = []TemplateKind{{Name: "small-bundles", Bundles: 80}, {Name: "large-bundles", Bundles: 60, deeper: 1}}

// GenerateTemplate writes a template of opm, of the schema olm.template.basic, and pushes the images of its bundles to a registry. It
// returns the file.
func GenerateTemplate(t testing.TB, registry string, kind TemplateKind) (file string) {
	t.Helper()
	g := generator{Rand: rand.New(rand.NewPCG(1, uint64(kind.Bundles))), name: "storage-operator", deeper: kind.deeper}
	template := map[string]any{"schema": "olm.template.basic"}
	var entries []any
	dir := t.TempDir()
	for _, part := range g.parts(Kind{Inline: true}, kind.Bundles) {
		config := part()
		for _, p := range config.Packages {
			entries = append(entries, p)
		}
		for _, c := range config.Channels {
			entries = append(entries, c)
		}
		for _, d := range config.Deprecations {
			entries = append(entries, d)
		}
		for _, b := range config.Bundles {
			folder := filepath.Join(dir, b.Name)
			writeObjects(t, folder, b)
			digest := PushBundle(t, folder, b.Package, registry+"/"+b.Package+":"+b.Name)
			entries = append(entries, map[string]any{"schema": declcfg.SchemaBundle, "image": registry + "/" + b.Package + "@" + digest})
			require.NoError(t, os.RemoveAll(folder))
		}
	}
	template["entries"] = entries
	text, err := boundedyaml.Marshal(template)
	require.NoError(t, err)
	file = filepath.Join(dir, "basic.yaml")
	Write(t, file, string(text))
	return file
}

// writeObjects writes the folder of a bundle that carries its objects. Its ClusterServiceVersion then owns only the
// CRDs among them, as in a bundle's image.
func writeObjects(t testing.TB, dir string, b declcfg.Bundle) {
	t.Helper()
	WriteAnnotations(t, dir, b.Package)
	var objects []map[string]any
	crds := 0
	for _, p := range b.Properties {
		if p.Type != property.TypeBundleObject {
			continue
		}
		var said property.BundleObject
		var object map[string]any
		require.NoError(t, errors.Join(json.Unmarshal(p.Value, &said), json.Unmarshal(said.Data, &object)))
		if objects = append(objects, object); object["kind"] == "CustomResourceDefinition" {
			crds++
		}
	}
	for i, object := range objects {
		if object["kind"] == "ClusterServiceVersion" {
			definitions := object["spec"].(map[string]any)["customresourcedefinitions"].(map[string]any)
			definitions["owned"] = definitions["owned"].([]any)[:crds]
		}
		text, err := boundedyaml.Marshal(object)
		require.NoError(t, err)
		Write(t, filepath.Join(dir, "manifests", fmt.Sprintf("%d.yaml", i)), string(text))
	}
}
