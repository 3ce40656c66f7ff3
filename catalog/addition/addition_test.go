package addition_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/addition"
	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

var update = flag.Bool("update", false, "write what was added into the archives")

// TestAdd adds version 1.1.0 to the files in testdata, to the channels in their first line. The result is a template or a catalog
// without errors.
func TestAdd(t *testing.T) {
	for _, path := range catalogs.Archives(t, "testdata") {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := catalogs.Extract(t, path, ".")
			catalogs.WriteBundle(t, "bundles/1.0.0", "tide", "1.0.0", "")
			catalogs.WriteBundle(t, "bundles/1.1.0", "tide", "1.1.0", "")
			file := archive.Files[0].Name
			channels, _, _ := strings.Cut(string(archive.Comment), "\n")
			_, err := addition.Add(t.Context(), addition.Request{File: file, Bundle: "bundles/1.1.0", Channels: strings.Fields(channels)})
			require.NoError(t, err)
			got, err := os.ReadFile(file)
			require.NoError(t, err)
			catalogs.Compare(t, path, archive, string(got), *update)
			check(t, file)
		})
	}
}

// check checks that a file is a catalog, or a template of one, in which 1.1.0 updates 1.0.0.
func check(t *testing.T, file string) {
	t.Helper()
	dir := file
	if strings.HasPrefix(file, "template") {
		built, err := build.Templates(t.Context(), []string{file}, build.Options{})
		require.NoError(t, err)
		require.Zero(t, findings.Count(built.Found, findings.Error), built)
		defer built.Close()
		if dir, err = built.Catalogs[0].Write("out"); err != nil {
			t.Fatal(err)
		}
	}
	c, err := rules.Load(t.Context(), dir)
	require.NoError(t, err)
	if bundles := len(c.Packages[0].Bundles); bundles != 2 {
		t.Errorf("the catalog has %d bundles, want 2", bundles)
	}
}

// TestAddImage: templates get the image as the user names it, and catalogs by digest.
func TestAddImage(t *testing.T) {
	t.Chdir(t.TempDir())
	address := registry.Start(t, nil)
	catalogs.WriteBundle(t, "1.1.0", "tide", "1.1.0", "")
	digest := catalogs.PushBundle(t, "1.1.0", "tide", address+"/tide:v1.1.0")
	channel := "schema: olm.channel\npackage: tide\nname: stable\nentries:\n- name: tide.v1.0.0\n"
	catalogs.Write(t, "semver.yaml", "schema: olm.semver\nstable:\n  bundles:\n  - image: quay.io/example/tide:v1\n")
	catalogs.Write(t, "catalog.yaml", channel)
	for file, want := range map[string]string{"semver.yaml": "  - image: " + address + "/tide:v1.1.0\n", "catalog.yaml": "image: " + address + "/tide@" + digest + "\n"} {
		_, err := addition.Add(t.Context(), addition.Request{File: file, Bundle: address + "/tide:v1.1.0"})
		require.NoError(t, err)
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: error %v, no %q in\n%s", file, err, want, text)
		}
	}
}

// TestAddRebuilt: in a template of substitutes, a later release substitutes the latest one of its version, and a version of
// another package does not.
func TestAddRebuilt(t *testing.T) {
	t.Chdir(t.TempDir())
	rebuilt := func(release string) {
		catalogs.WriteBundle(t, release, "tide", "1.0.0+"+release, "")
		file := filepath.Join(release, "manifests", "csv.yaml")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		name := "{name: tide.v1.0.0-" + release + ", annotations: {olm.substitutesFor: tide.v1.0.0}}"
		catalogs.Write(t, file, strings.Replace(string(text), "{name: tide.v1.0.0+"+release+"}", name, 1))
	}
	const bundle = "\n- schema: olm.bundle\n  package: PACKAGE\n  name: PACKAGE.v1.0.0\n  image: quay.io/example/PACKAGE:v1\n" +
		"  properties: [{type: olm.package, value: {packageName: PACKAGE, version: 1.0.0}}]"
	template := "schema: olm.template.substitutes\nentries:" + strings.ReplaceAll(bundle, "PACKAGE", "moon") + strings.ReplaceAll(bundle, "PACKAGE", "tide") +
		"\nsubstitutions:\n- {name: quay.io/example/sun:v2, base: sun.v1.0.0}\n"
	catalogs.Write(t, "tide.yaml", template)
	rebuilt("1")
	_, err := addition.Add(t.Context(), addition.Request{File: "tide.yaml", Bundle: "1"})
	require.NoError(t, err)
	text, err := os.ReadFile("tide.yaml")
	if diff := cmp.Diff(template+"- name: \"1\"\n  base: tide.v1.0.0\n", string(text)); err != nil || diff != "" {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	rebuilt("2")
	_, err = addition.Add(t.Context(), addition.Request{File: "tide.yaml", Bundle: "2"})
	require.NoError(t, err)
	after, err := os.ReadFile("tide.yaml")
	if diff := cmp.Diff(string(text)+"- name: \"2\"\n  base: tide.v1.0.0-1\n", string(after)); err != nil || diff != "" {
		t.Errorf("error %v, -want +got:\n%s", err, diff)
	}
	require.NoError(t, os.RemoveAll("1"))
	rebuilt("3")
	_, err = addition.Add(t.Context(), addition.Request{File: "tide.yaml", Bundle: "3"})
	assert.ErrorContains(t, err, "tide.yaml:15: ", "want one with the line of the image that cannot be read")
}

// TestAddToLink: a link stays a link, and its target gets the bundle.
func TestAddToLink(t *testing.T) {
	t.Chdir(t.TempDir())
	catalogs.WriteBundle(t, "bundles/1.0.0", "tide", "1.0.0", "")
	catalogs.WriteBundle(t, "bundles/1.1.0", "tide", "1.1.0", "")
	catalogs.Write(t, "kept/tide.yaml", "schema: olm.semver\nstable:\n  bundles:\n  - image: ../bundles/1.0.0\n")
	require.NoError(t, os.Symlink("kept/tide.yaml", "tide.yaml"))
	_, err := addition.Add(t.Context(), addition.Request{File: "tide.yaml", Bundle: "bundles/1.1.0"})
	require.NoError(t, err)
	text, err := os.ReadFile("kept/tide.yaml")
	assert.NoError(t, err)
	assert.Contains(t, string(text), "bundles/1.1.0")
	if target, err := os.Readlink("tide.yaml"); target != "kept/tide.yaml" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
}

// TestAddRefuses: a refused bundle leaves the file unchanged.
func TestAddRefuses(t *testing.T) {
	const template = "schema: berth.template\npackage: tide\nbundles: [{folder: 1.0.0}]\nchannels: [{name: stable}, {name: fast}]\n"
	const channel = "schema: olm.channel\npackage: tide\nname: stable\nentries: "
	for name, tc := range map[string]struct {
		text, bundle, want string
		channels           []string
		replaces           string
	}{
		"which channel":   {template, "1.1.0", "has channels stable, fast; say with --channel", nil, ""},
		"no such channel": {template, "1.1.0", "has no channel fats; expected one of stable, fast; did you mean fast?", []string{"fats"}, ""},
		"other package":   {template, "moon", "file.yaml is of package tide, and bundle moon.v1.0.0 of package moon", []string{"fast"}, ""},
		"not a bundle":    {template, "none", `image "none"`, nil, ""},
		"heads":           {channel + "[{name: a}, {name: b}]\n", "1.1.0", "has the heads a, b", nil, ""},
		"there already":   {channel + "[{name: tide.v1.1.0}]\n", "1.1.0", "channel stable has tide.v1.1.0 already", nil, ""},
		"no channel":      {channel + "[{name: a}]\n", "moon", "has no channel of package moon", nil, ""},
		"other schema":    {"schema: olm.composite\n", "1.1.0", `is of schema "olm.composite"`, nil, ""},
		"no entries":      {"schema: olm.template.substitutes\n", "1.1.0", "has no entries", nil, ""},
		"no list":         {"schema: olm.semver\nstable:\n", "1.1.0", "has no bundles", nil, ""},
		"an alias":        {"x: &a [{name: tide.v1.0.0}]\n" + channel + "*a\n", "1.1.0", "file.yaml:5: expected a list; add the bundle by hand", nil, ""},
		"an alias above":  {"schema: berth.template\npackage: tide\nbundles: [{folder: 1.0.0}]\nx: &a\n- {name: stable, entries: [{name: a}]}\nchannels: *a\n", "1.1.0", "file.yaml:6: expected a list", nil, ""},
		"an empty anchor": {channel + "&a []\n", "1.1.0", "file.yaml:4: expected a list; add the bundle by hand", nil, ""},
		"an anchor":       {channel + "&a [{name: tide.v1.0.0}]\nx:\n- 1\n", "1.1.0", "file.yaml:4: expected a list; add the bundle by hand", nil, ""},
		"malformed":       {"a: [\n", "1.1.0", "malformed YAML", nil, ""},
		"empty":           {"", "1.1.0", "is empty", nil, ""},
		"downgrade":       {channel + "[{name: tide.v1.2.0}]\n", "1.1.0", "tide.v1.1.0 is earlier than tide.v1.2.0, the head of channel stable", nil, ""},
		"another head": {channel + "[{name: tide.v1.0.0}, {name: tide.v1.0.1, replaces: tide.v1.0.0}]\n", "1.1.0",
			"channel stable would have the heads tide.v1.0.1, tide.v1.1.0, and OLM v0 would resolve nothing from it", nil, "tide.v1.0.0"},
		"misspelled":                     {channel + "[{name: tide.v1.0.1}]\n", "1.1.0", "did you mean tide.v1.0.1?", nil, "tide.1.0.1"},
		"listed in a template":           {template, "1.0.0", "file.yaml: bundles has 1.0.0 already", []string{"fast"}, ""},
		"in a list":                      {"schema: olm.semver\nstable:\n  bundles:\n  - image: 1.1.0\n", "1.1.0", "list stable has 1.1.0 already", nil, ""},
		"in a basic template":            {"schema: olm.template.basic\nentries:\n- {schema: olm.bundle, image: 1.1.0}\n", "1.1.0", "entries has 1.1.0 already", nil, ""},
		"in a template with substitutes": {"schema: olm.template.substitutes\nentries:\n- {schema: olm.bundle, name: tide.v1.1.0, package: tide}\n", "1.1.0", "entries has tide.v1.1.0 already", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			catalogs.WriteBundle(t, "1.0.0", "tide", "1.0.0", "")
			catalogs.WriteBundle(t, "1.1.0", "tide", "1.1.0", "")
			catalogs.WriteBundle(t, "moon", "moon", "1.0.0", "")
			catalogs.Write(t, "file.yaml", tc.text)
			before := catalogs.Tree(t, ".")
			if added, err := addition.Add(t.Context(), addition.Request{File: "file.yaml", Bundle: tc.bundle, Channels: tc.channels, Replaces: tc.replaces}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("added %v, error %v, want one with %q", added, err, tc.want)
			}
			if text, err := os.ReadFile("file.yaml"); err != nil || string(text) != tc.text {
				t.Errorf("error %v, the file is now\n%s", err, text)
			}
			assert.Empty(t, cmp.Diff(before, catalogs.Tree(t, ".")), "-before +after")
		})
	}
}
