package render_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestWriteLikeOpm compares the output with real opm's for the same folders, byte by byte.
func TestWriteLikeOpm(t *testing.T) {
	opm := catalogs.OPM(t)
	folders := map[string][]string{
		"small":        {"../testdata/catalog"},
		"bundle":       {"../testdata/bundles/tide/0.1.0"},
		"bundles":      {"../testdata/bundles/tide/0.2.0", "../testdata/bundles/tide/0.1.0"},
		"several":      {"../certified", "../testdata/catalog", "../server/testdata"},
		"mixed bundle": {"../certified", "../testdata/bundles/tide/0.1.0"},
	}
	for _, kind := range catalogs.Kinds {
		dir := t.TempDir()
		kind.Packages, kind.Bundles = 3, 20
		require.NoError(t, catalogs.Generate(dir, kind))
		folders["kind "+kind.Name] = []string{dir}
	}
	for name, changes := range oddBundles {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS("../testdata/bundles/tide/0.1.0")))
		for file, content := range changes {
			before, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			catalogs.Write(t, filepath.Join(dir, file), strings.ReplaceAll(content, "BEFORE", string(before)))
		}
		folders["odd bundle: "+name] = []string{dir}
	}
	for name, dirs := range validArchives(t) {
		folders[name] = dirs
	}
	for name, dirs := range folders {
		t.Run(name, func(t *testing.T) {
			for _, format := range render.Formats {
				want, err := exec.CommandContext(t.Context(), opm, append([]string{"render", "-o", format}, dirs...)...).Output()
				require.NoError(t, err)
				var got bytes.Buffer
				_, err = render.Write(t.Context(), &got, render.Options{Output: format}, dirs)
				require.NoError(t, err)
				assert.Emptyf(t, cmp.Diff(string(want), got.String()), "%s: -opm +ours", format)
			}
		})
	}
}

// oddBundles are unusual files in bundles that opm nevertheless renders. BEFORE stands for the original content
// of the file.
var oddBundles = map[string]map[string]string{
	"a boolean and numbers among annotations": {"metadata/annotations.yaml": "BEFORE\n  com.example.a: true\n  com.example.b: 1\n  com.example.c: 4.20\n  com.example.d: [e]\n"},
	"a second document":                       {"manifests/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"},
	"a malformed second document":             {"manifests/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\na: b: c\n"},
	"an empty document first":                 {"manifests/a.yaml": "# a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"},
	"a malformed manifest":                    {"manifests/a.yaml": "a: b: c\n"},
	"a manifest that is no object":            {"manifests/a.yaml": "a: b\n"},
	"another ClusterServiceVersion":           {"manifests/zz.yaml": "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a}\n"},
	"a folder in manifests":                   {"manifests/crds/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"},
	"malformed dependencies":                  {"metadata/dependencies.yaml": "dependencies: [\n"},
	"dependencies of the wrong type":          {"metadata/dependencies.yaml": "dependencies: 5\nproperties:\n- {type: a, value: b}\n"},
	"a property twice":                        {"metadata/properties.yaml": "properties:\n- {type: a, value: b}\n- {type: a, value: b}\n- {type: a, value: 1}\n"},
	"keys in another order":                   {"metadata/properties.yaml": "properties:\n- type: a\n  value:\n    b: \">=1\"\n    a: 1\n", "metadata/dependencies.yaml": "dependencies:\n- type: olm.constraint\n  value:\n    failureMessage: \">none\"\n    all:\n      constraints: []\n"},
	"keys in another order, in JSON":          {"metadata/properties.yaml": `{"properties": [{"type": "a", "value": {"b": ">=1", "a": 1}}]}`},
	"texts in metadata":                       {"metadata/README.md": "# Read: me: first\n", "metadata/NOTES.txt": "hello\n", "metadata/list.yaml": "[a]\n"},
	"another media type":                      {"metadata/annotations.yaml": "annotations: {operators.operatorframework.io.bundle.package.v1: tide, operators.operatorframework.io.bundle.mediatype.v1: plain+v0}\n"},
}

// TestRelatedImagesLikeOpm: images with equal pull specs are in the order of opm's sort.
func TestRelatedImagesLikeOpm(t *testing.T) {
	opm := catalogs.OPM(t)
	dir := t.TempDir()
	catalogs.Write(t, filepath.Join(dir, "metadata", "annotations.yaml"), "annotations: {operators.operatorframework.io.bundle.package.v1: tide, operators.operatorframework.io.bundle.mediatype.v1: registry+v1}\n")
	csv := "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: tide.v1.0.0}\nspec:\n  version: 1.0.0\n  relatedImages:\n"
	for i := range 40 {
		csv += fmt.Sprintf("  - {name: z%d, image: \"quay.io/example/%d\"}\n", 40-i, i*7%5)
	}
	catalogs.Write(t, filepath.Join(dir, "manifests", "csv.yaml"), csv)
	want, err := exec.CommandContext(t.Context(), opm, "render", dir).Output()
	require.NoError(t, err)
	var got bytes.Buffer
	_, err = render.Write(t.Context(), &got, render.Options{Output: "json"}, []string{dir})
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(string(want), got.String()), "-opm +ours")
}

// oddCatalogs are catalogs that opm renders although it finds them invalid, or incomplete.
var oddCatalogs = map[string]struct {
	text  string
	found []string // findings with these parts, each once
}{
	"everything twice":            {twice(2), []string{"olm.package", "olm.channel", "olm.bundle", "olm.deprecations"}},
	"everything many times":       {twice(20), nil},
	"a schema that OLM lacks":     {catalogOf("schema: olm.composite\nname: tide\n", "schema: olm.bundel\npackage: tide\nname: tide.v1\n"), []string{`"olm.composite"`, `"olm.bundel"`}},
	"schemas of others":           {catalogOf("schema: b\n", "schema: a\n", "schema: c\npackage: tide\n", "schema: a\npackage: tide\nname: d\n", "schema: a\npackage: tide\nname: a\n"), nil},
	"a schema that is no name":    {catalogOf("schema: a/b\n", "schema: a\npackage: a/b\n"), []string{`"a/b", package ""`, `package "a/b"`}},
	"documents without a package": {catalogOf("schema: olm.channel\nname: a\n", "schema: olm.bundle\nname: a\n", "schema: olm.package\n", "schema: olm.deprecations\nentries: []\n"), []string{`olm.channel "a" has no`, `olm.bundle "a" has no`, "olm.package has no", "olm.deprecations has no"}},
	"an object without a kind":    {catalogOf(objectOf("{a: b}")), []string{"it has no kind"}},
	"an object that is no object": {catalogOf(objectOf("- a")), []string{"not a Kubernetes object"}},
	"a description that is none":  {catalogOf("schema: olm.bundle\npackage: tide\nname: a\nproperties:\n- {type: olm.csv.metadata, value: {keywords: a}}\n"), []string{"property of type olm.csv.metadata"}},
	"nothing but a channel":       {"schema: olm.channel\npackage: tide\nname: a\nentries: [{name: tide.v1}]\n", nil},
	"nothing but others":          {"schema: a\n", nil},
}

func catalogOf(documents ...string) string {
	return strings.Join(append([]string{"schema: olm.package\nname: tide\n"}, documents...), "---\n")
}

// twice returns a catalog in which each document is there many times, and differs.
func twice(times int) string {
	var documents []string
	for i := range times {
		documents = append(documents, fmt.Sprintf("schema: olm.package\nname: ebb\ndescription: d%d\n", i),
			fmt.Sprintf("schema: olm.channel\npackage: ebb\nname: a\nentries: [{name: n%d}]\n", i), fmt.Sprintf("schema: olm.channel\npackage: ebb\nname: b%d\nentries: []\n", (i*7)%10),
			fmt.Sprintf("schema: olm.bundle\npackage: ebb\nname: a\nimage: quay.io/example/%d\n", i), fmt.Sprintf("schema: olm.bundle\npackage: ebb\nname: b%d\nimage: quay.io/example/%d\n", (i*7)%10, i),
			fmt.Sprintf("schema: olm.deprecations\npackage: ebb\nentries: [{reference: {schema: olm.package}, message: \"%d\"}]\n", i))
	}
	return catalogOf(documents...)
}

// objectOf returns a bundle that carries data.
func objectOf(data string) string {
	return "schema: olm.bundle\npackage: tide\nname: a\nproperties:\n- {type: olm.bundle.object, value: {data: " + base64.StdEncoding.EncodeToString([]byte(data)) + "}}\n"
}

// TestWriteOddCatalogs: what opm renders is rendered, with the same bytes, and a warning about each fault.
func TestWriteOddCatalogs(t *testing.T) {
	opm := catalogs.OPM(t)
	for name, tc := range oddCatalogs {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			catalogs.Write(t, filepath.Join(dir, "catalog.yaml"), tc.text)
			for _, format := range render.Formats {
				want, err := exec.CommandContext(t.Context(), opm, "render", "-o", format, dir).Output()
				require.NoError(t, err)
				var got bytes.Buffer
				found, err := render.Write(t.Context(), &got, render.Options{Output: format}, []string{dir})
				require.NoError(t, err)
				assert.Emptyf(t, cmp.Diff(string(want), got.String()), "%s: -opm +ours", format)
				for _, part := range tc.found {
					n := 0
					for _, f := range found {
						if f.Severity == findings.Warning && strings.Contains(f.Message, part) {
							n++
						}
					}
					assert.Equalf(t, 1, n, "found %v; want one warning with %q", found, part)
				}
			}
		})
	}
}

// TestWriteRefuses: what opm refuses is refused, also beside faults that it does not have.
func TestWriteRefuses(t *testing.T) {
	opm := catalogs.OPM(t)
	for name, text := range map[string]string{
		"data that is not YAML":     catalogOf(objectOf("a: b: c"), "schema: olm.package\nname: tide\n"),
		"data that is not base64":   catalogOf("schema: olm.bundle\npackage: tide\nname: a\nproperties:\n- {type: olm.bundle.object, value: {data: \"&\"}}\n"),
		"data that is a list":       catalogOf("schema: olm.bundle\npackage: tide\nname: a\nproperties:\n- {type: olm.bundle.object, value: []}\n"),
		"a document without schema": catalogOf("name: tide\n", "schema: olm.foo\n"),
		"malformed":                 catalogOf("schema: a: b\n", "schema: olm.foo\n"),
	} {
		dir := t.TempDir()
		catalogs.Write(t, filepath.Join(dir, "catalog.yaml"), text)
		for _, format := range render.Formats {
			var got bytes.Buffer
			_, err := render.Write(t.Context(), &got, render.Options{Output: format}, []string{dir})
			if out, failed := exec.CommandContext(t.Context(), opm, "render", dir).CombinedOutput(); failed == nil || err == nil || got.Len() > 0 {
				t.Errorf("%s: opm's error %v, berth's %v, and %d bytes; want two errors\n%s", name, failed, err, got.Len(), out)
			}
		}
	}
}

// validArchives returns folders with those catalogs of the tests of rules that both opm and berth find valid.
func validArchives(t *testing.T) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob("../rules/testdata/validate/*.txtar")
	require.NoError(t, err)
	folders := map[string][]string{}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		require.NoError(t, err)
		if want := archive.Files[len(archive.Files)-1]; string(want.Data) != "opm: valid\n" {
			continue
		}
		dir := t.TempDir()
		for _, file := range archive.Files[:len(archive.Files)-1] {
			catalogs.Write(t, filepath.Join(dir, file.Name), string(file.Data))
		}
		folders["archive "+filepath.Base(path)] = []string{dir}
	}
	require.GreaterOrEqual(t, len(folders), 10)
	return folders
}

// TestWriteIsStable: rendering again changes nothing, and neither does the order of folders.
func TestWriteIsStable(t *testing.T) {
	for _, format := range render.Formats {
		render := func(dirs ...string) string {
			var text bytes.Buffer
			_, err := render.Write(t.Context(), &text, render.Options{Output: format}, dirs)
			require.NoError(t, err)
			return text.String()
		}
		first := render("../testdata/catalog", "../server/testdata")
		if again := render("../server/testdata", "../testdata/catalog"); again != first {
			t.Errorf("%s: in another order:\n%s", format, cmp.Diff(first, again))
		}
		dir := t.TempDir()
		catalogs.Write(t, filepath.Join(dir, "catalog."+format), first)
		if again := render(dir); again != first {
			t.Errorf("%s: rendered again:\n%s", format, cmp.Diff(first, again))
		}
	}
}

// TestWriteKeepsDigits: opm rounds integers to the precision of a float.
func TestWriteKeepsDigits(t *testing.T) {
	dir := t.TempDir()
	const number = "12345678901234567891"
	catalogs.Write(t, filepath.Join(dir, "catalog.yaml"), "schema: olm.package\nname: tide\n---\nschema: olm.bundle\npackage: tide\nname: tide.v1\n"+
		"properties:\n- type: com.example.depth\n  value: {metres: "+number+"}\n")
	var got bytes.Buffer
	_, err := render.Write(t.Context(), &got, render.Options{Output: "json"}, []string{dir})
	require.NoError(t, err)
	assert.Contains(t, got.String(), `"metres": `+number)
}

func TestWriteFails(t *testing.T) {
	broken := t.TempDir()
	catalogs.Write(t, filepath.Join(broken, "a.yaml"), "schema: olm.package\nname: a: b\n---\nschema: olm.channel\n")
	for _, tc := range []struct {
		dir  string
		want []string
	}{
		{broken, []string{"a.yaml:2:8: malformed YAML", "a.yaml:4: olm.channel has no field package"}},
		{filepath.Join(broken, "none"), []string{"none: no such file"}},
		{t.TempDir(), []string{"holds no package"}},
	} {
		var got bytes.Buffer
		_, err := render.Write(t.Context(), &got, render.Options{Output: "json"}, []string{"../testdata/catalog", tc.dir})
		for _, want := range tc.want {
			assert.ErrorContains(t, err, want, "got error")
		}
		assert.Zero(t, got.Len(), "it has written bytes all the same")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	_, err = render.Write(t.Context(), full, render.Options{Output: "json"}, []string{"../testdata/catalog"})
	assert.Error(t, err, "it does not notice that the disk is full")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = render.Write(ctx, &bytes.Buffer{}, render.Options{Output: "json"}, []string{"../testdata/catalog"})
	assert.ErrorIs(t, err, context.Canceled, "canceled")
}

// TestSplitLikeOPM: real opm writes the same files, in both formats of bundles.
func TestSplitLikeOPM(t *testing.T) {
	opm := catalogs.OPM(t)
	for _, kind := range []catalogs.Kind{catalogs.Objects, catalogs.Metadata} {
		kind.Packages, kind.Bundles = 3, 12
		dir := t.TempDir()
		require.NoError(t, catalogs.Generate(dir, kind))
		for _, level := range render.BundleFormats {
			for _, format := range render.Formats {
				t.Run(kind.Name+" "+string(level)+" "+format, func(t *testing.T) {
					theirs, ours := filepath.Join(t.TempDir(), "catalog"), filepath.Join(t.TempDir(), "below", "catalog")
					if out, err := exec.CommandContext(t.Context(), opm, "migrate", "--migrate-level", string(level), "-o", format, dir, theirs).CombinedOutput(); err != nil {
						t.Fatalf("opm migrate: %v\n%s", err, out)
					}
					_, err := render.Split(t.Context(), ours, render.Options{Output: format, Level: level}, []string{dir})
					require.NoError(t, err)
					require.Empty(t, cmp.Diff(catalogs.Tree(t, theirs), catalogs.Tree(t, ours)), "-opm +ours")
					for _, name := range catalogs.Tree(t, ours) {
						want, err := os.ReadFile(filepath.Join(theirs, name))
						if err != nil {
							continue // a folder
						}
						got, err := os.ReadFile(filepath.Join(ours, name))
						require.NoError(t, err)
						assert.Emptyf(t, cmp.Diff(string(want), string(got)), "%s: -opm +ours", name)
					}
				})
			}
		}
	}
}

// TestSplitRefuses: existing files are not overwritten, and a failure leaves no files.
func TestSplitRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	catalogs.Write(t, "full/notes", "by hand\n")
	catalogs.Write(t, "broken/a.yaml", "a: [\n")
	catalogs.Write(t, "outside/a.yaml", "schema: olm.package\nname: ../../evil\n")
	for name, tc := range map[string]struct{ dir, source, want string }{
		"not empty": {"full", "../testdata/catalog", "folder full is not empty"},
		"malformed": {"new", "broken", "malformed YAML"},
		"outside":   {"new", "outside", `package "../../evil" has a name that no folder can have`},
	} {
		_, err := render.Split(t.Context(), tc.dir, render.Options{Output: "yaml"}, []string{tc.source})
		assert.ErrorContains(t, err, tc.want, name)
	}
	if got, want := catalogs.Tree(t, "."), []string{"broken", "broken/a.yaml", "full", "full/notes", "outside", "outside/a.yaml"}; !cmp.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
}

// TestImageTemplate: real opm renders the same bundles from folders with an image template.
func TestImageTemplate(t *testing.T) {
	const text, dir = "quay.io/example/{{.Package}}-bundle/{{ .Name }}:v{{.Version}}", "../testdata/bundles/tide/0.1.0"
	for _, level := range render.BundleFormats {
		want, err := exec.CommandContext(t.Context(), catalogs.OPM(t), "render", "--alpha-image-ref-template", text, "--migrate-level", string(level), dir).Output()
		require.NoError(t, err)
		image, err := render.ParseImageTemplate(text)
		require.NoError(t, err)
		var got bytes.Buffer
		_, err = render.Write(t.Context(), &got, render.Options{Output: "json", Level: level, Image: image}, []string{dir})
		require.NoError(t, err)
		assert.Emptyf(t, cmp.Diff(string(want), got.String()), "%s: -opm +ours", level)
	}
	for _, text := range []string{"", "quay.io/{{.Image}}", "quay.io/{{range .}}", "{{.Package"} {
		_, err := render.ParseImageTemplate(text)
		assert.Errorf(t, err, "%q is a template", text)
	}
}

// TestWriteYAML: the output equals the library's, byte by byte, for any bundle.
func TestWriteYAML(t *testing.T) {
	object := func(data string) property.Property {
		return property.Property{Type: property.TypeBundleObject, Value: []byte(data)}
	}
	for name, properties := range map[string][]property.Property{
		"none":    nil,
		"objects": {property.MustBuildPackage("tide", "1.0.0"), property.MustBuildBundleObject([]byte(`{"kind":"A","b":"ü?>"}`)), property.MustBuildBundleObject([]byte(`{"kind":"B"}`))},
		"unusual": {object(`{"data":"eyJ=="}`), object(`{"data":"true"}`), object(`{"data":"eyJ a"}`), object(`{ "data": "eyJhIjoxfQ==" }`), object(`{"data":"eyJhIjoxfQ==","more":1}`)},
	} {
		b := catalogs.Bundle("tide", "tide.v1.0.0")
		b.Properties = properties
		var want, got bytes.Buffer
		require.NoError(t, declcfg.WriteYAML(declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{b}}, &want))
		require.NoError(t, render.WriteYAML(b, &got))
		assert.Emptyf(t, cmp.Diff(want.String(), got.String()), "%s: -library +ours", name)
	}
}
