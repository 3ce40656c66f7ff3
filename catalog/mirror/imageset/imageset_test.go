package imageset_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/mirror/imageset"
)

const head = "apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\n"

// read reads a configuration with this text.
func read(t *testing.T, text, kind string) (*imageset.Set, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "imageset.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return imageset.Read(file, kind)
}

// TestSelections: what an entry chooses is as in the acceptance table of oc-mirror v2.
func TestSelections(t *testing.T) {
	for entry, want := range map[string]string{
		`{name: tide}`:                                                                                 "tide@head",
		`{name: tide, minVersion: 1.0.0}`:                                                              "tide@>=1.0.0",
		`{name: tide, maxVersion: 2.0.0}`:                                                              "tide@<=2.0.0",
		`{name: tide, minVersion: 1.0.0, maxVersion: 2.0.0}`:                                           "tide@>=1.0.0 <=2.0.0",
		`{name: tide, minVersion: 1.0.0, maxVersion: 1.0.0}`:                                           "tide@1.0.0",
		`{name: tide, defaultChannel: fast, channels: [{name: stable}, {name: fast}]}`:                 "tide/stable@head, tide/fast@head, default fast",
		`{name: tide, channels: [{name: stable, minVersion: 1.0.0}]}`:                                  "tide/stable@>=1.0.0",
		`{name: tide, channels: [{name: stable, maxVersion: 1.0.0}]}`:                                  "tide/stable@<=1.0.0",
		`{name: tide, channels: [{name: stable, minVersion: 1.0.0, maxVersion: 2.0.0}, {name: fast}]}`: "tide/stable@>=1.0.0 <=2.0.0, tide/fast@head",
	} {
		s, err := read(t, head+"mirror: {operators: [{catalog: quay.io/example/sea:v1, packages: ["+entry+"]}]}", imageset.Mirror)
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		if got := chosen(s.Catalogs[0]); got != want {
			t.Errorf("%s chooses %s, want %s", entry, got, want)
		}
	}
	for entry, want := range map[string]string{
		`{catalog: quay.io/example/sea:v1}`:                                                                   "heads",
		`{catalog: quay.io/example/sea:v1, full: true}`:                                                       "all",
		`{catalog: quay.io/example/sea:v1, full: true, packages: [{name: tide}]}`:                             "tide",
		`{catalog: quay.io/example/sea:v1, full: true, packages: [{name: tide, channels: [{name: stable}]}]}`: "tide/stable",
	} {
		s, err := read(t, head+"mirror: {operators: ["+entry+"]}", imageset.Mirror)
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		if got := chosen(s.Catalogs[0]); got != want {
			t.Errorf("%s chooses %s, want %s", entry, got, want)
		}
	}
}

// chosen describes what is chosen of a catalog.
func chosen(c imageset.Catalog) string {
	var all []string
	for _, s := range c.Selections {
		all = append(all, s.String())
	}
	if len(all) == 0 && c.HeadsOnly {
		all = append(all, "heads")
	} else if len(all) == 0 {
		all = append(all, "all")
	}
	if d := c.DefaultChannels["tide"]; d != "" {
		all = append(all, "default "+d)
	}
	return strings.Join(all, ", ")
}

// TestPlaces: a catalog's image has the name and the tag of its source, or those that the configuration gives it.
func TestPlaces(t *testing.T) {
	for entry, want := range map[string]string{
		`catalog: quay.io/example/sea:v4.20`:                                                         "sea sea:v4.20",
		`catalog: "oci:carried/deep"`:                                                                "deep deep:latest",
		`catalog: "docker://quay.io:443/example/Sea"`:                                                "sea sea:latest",
		`catalog: "quay.io/example/sea:v1@sha256:` + strings.Repeat("0", 64) + `"`:                   "sea sea:v1",
		`catalog: quay.io/example/sea:v1, targetCatalog: team/the.sea, targetTag: deep`:              "the-sea team/the.sea:deep",
		`catalog: quay.io/example/sea:v1, platforms: [{os: linux, architecture: arm64}], full: true`: "sea sea:v1 linux/arm64",
	} {
		s, err := read(t, head+"mirror: {operators: [{"+entry+"}]}", imageset.Mirror)
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		c := s.Catalogs[0]
		if got := strings.TrimSpace(c.Name + " " + c.Repository + ":" + c.Tag + " " + strings.Join(c.Platforms, " ")); got != want {
			t.Errorf("%s is at %s, want %s", entry, got, want)
		}
	}
}

// TestFaults: what cannot be followed is refused with its place, and never left out silently.
func TestFaults(t *testing.T) {
	operator := func(text string) string { return head + "mirror: {operators: [" + text + "]}" }
	for text, want := range map[string]string{
		"apiVersion: mirror.openshift.io/v1alpha2\nkind: ImageSetConfiguration\nmirror: {}":       `its kind is "ImageSetConfiguration" and its apiVersion "mirror.openshift.io/v1alpha2"; expected "ImageSetConfiguration" and "mirror.openshift.io/v2alpha1"`,
		"apiVersion: mirror.openshift.io/v2alpha1\nkind: DeleteImageSetConfiguration\ndelete: {}": `its kind is "DeleteImageSetConfiguration"`,
		"tide: in":                      `its kind is "" and its apiVersion ""`,
		head:                            "it has no mirror",
		head + "mirror: {platform: {}}": "expected operators or additionalImages",
		head + "mirror: {operators: [{catalog: a, bundles: []}]}":                                             `unknown field`,
		operator("{packages: [{name: tide}]}"):                                                                "operators[0]: catalog is missing",
		operator("{catalog: a, packages: [{}]}"):                                                              "its name is missing",
		operator("{catalog: a, packages: [{name: tide, minVersion: 1.0.0, channels: [{name: stable}]}]}"):     "versions in the channels",
		operator("{catalog: a, full: true, packages: [{name: tide, minVersion: 1.0.0}]}"):                     "it has full and versions",
		operator("{catalog: a, full: true, packages: [{name: t, channels: [{name: s, maxVersion: 1.0.0}]}]}"): "it has full and versions",
		operator("{catalog: a, packages: [{name: tide, minVersion: v1}]}"):                                    `"v1" is not a version`,
		operator("{catalog: a, targetCatalog: 'sea:v1'}"):                                                     "without a tag",
		operator("{catalog: a, targetCatalog: quay.io/example/sea}"):                                          "images have such places",
		operator("{catalog: a, targetCatalog: ../sea}"):                                                       "expected a path",
		operator("{catalog: quay.io/x/sea:v1}, {catalog: quay.io/x/sea:v2}"):                                  `operators[1]: its name for clusters would be "sea", the same as for mirror.operators[0]`,
		operator("{catalog: a, targetCatalog: additional-images}"):                                            "that of additional images",
		operator("{catalog: a, platforms: [{os: linux}]}"):                                                    "expected both",
		head + "mirror: {additionalImages: [{name: ''}]}":                                                     "additionalImages[0]: its name is missing",
		head + "mirror: {operators: [{catalog: a}], blockedImages: [{name: '('}]}":                            "blockedImages[0].name",
		head + "mirror: {operators: [{catalog: a}], blockedImages: [{name: ''}]}":                             "would block all",
	} {
		_, err := read(t, text, imageset.Mirror)
		assert.ErrorContains(t, err, want, text)
	}
}

// TestMissing: it is said which file is expected.
func TestMissing(t *testing.T) {
	_, err := imageset.Read(filepath.Join(t.TempDir(), "none.yaml"), imageset.Delete)
	assert.ErrorContains(t, err, "none.yaml: no such file or directory; expected a file of oc-mirror v2, of kind DeleteImageSetConfiguration")
}

// TestWarnings: each part that is ignored is named.
func TestWarnings(t *testing.T) {
	s, err := read(t, head+`archiveSize: 4
mirror:
  platform: {channels: [{name: stable-4.20}]}
  helm: {repositories: []}
  samples: [{name: ruby}]
  operators: [{catalog: sea, skipDependencies: true, targetCatalogSourceTemplate: a.yaml}]
  additionalImages: [{name: quay.io/example/gull:v1, targetRepo: team/gull, targetTag: v2}]
`, imageset.Mirror)
	require.NoError(t, err)
	got := strings.Join(s.Warnings, "\n")
	for _, want := range []string{"archiveSize is", "mirror.platform is", "mirror.helm is", "mirror.samples is", "operators[0].skipDependencies", "operators[0].targetCatalogSourceTemplate", "additionalImages[0].targetRepo", "additionalImages[0].targetTag"} {
		assert.Containsf(t, got, want, "no warning says %q", want)
	}
}

// TestImagesByPlatforms: single images for different platforms are apart, because objects for clusters have one name each.
func TestImagesByPlatforms(t *testing.T) {
	s, err := read(t, "apiVersion: mirror.openshift.io/v2alpha1\nkind: DeleteImageSetConfiguration\ndelete:\n  additionalImages:\n  - {name: quay.io/a/a:v1}\n  - {name: quay.io/a/b:v1, platforms: [{os: linux, architecture: arm64}]}\n  - {name: quay.io/a/c:v1}\n", imageset.Delete)
	require.NoError(t, err)
	var got []string
	for _, g := range s.ImagesByPlatforms() {
		got = append(got, g.Name+": "+strings.Join(g.References, " ")+" "+strings.Join(g.Platforms, " "))
	}
	want := "additional-images: quay.io/a/a:v1 quay.io/a/c:v1 \nadditional-images-linux-arm64: quay.io/a/b:v1 linux/arm64"
	assert.Equal(t, want, strings.Join(got, "\n"), "the groups")
}
