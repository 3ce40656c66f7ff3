package build_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestUnlinkedFolders: for bundles without replaces, the advice ends with a template that builds a catalog whose versions replace
// each other.
func TestUnlinkedFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	var dirs []string
	for _, version := range []string{"1.0.0", "1.10.0", "1.2.0"} {
		dirs = append(dirs, filepath.Join("bundles", version))
		catalogs.WriteBundle(t, dirs[len(dirs)-1], "tide", version, "")
	}
	built, err := build.Folders(t.Context(), dirs, build.ByReplaces, nil)
	require.NoError(t, err)
	require.Error(t, built.Advice, "folders without replaces make a catalog")
	lines := strings.Split(built.Advice.Error(), "\n")
	if advice := lines[len(lines)-2]; !strings.Contains(advice, "save the next line as tide.yaml in this folder, and build that") {
		t.Errorf("got advice %q", advice)
	}
	require.NoError(t, os.WriteFile("tide.yaml", []byte(lines[len(lines)-1]), 0o644))
	configs, found, err := configsOf(t, []string{"tide.yaml"}, build.Options{})
	if err != nil || len(found) > 0 {
		t.Fatal(found, err)
	}
	var got []string
	for _, e := range configs[0].Channels[0].Entries {
		got = append(got, e.Name+" "+e.Replaces)
	}
	if got, want := strings.Join(got, ", "), "tide.v1.0.0 , tide.v1.2.0 tide.v1.0.0, tide.v1.10.0 tide.v1.2.0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	catalogs.WriteBundle(t, dirs[0], "tide", "1.2.0", "replaces: tide.v1.0.0")
	built, err = build.Folders(t.Context(), dirs[:2], build.ByReplaces, nil)
	require.NoError(t, err)
	require.NoError(t, built.Advice, "one bundle says what it replaces")
}

// TestRebuilds: a template tells builds of one version apart, and asks which is meant where it does not.
func TestRebuilds(t *testing.T) {
	t.Chdir(t.TempDir())
	template := "schema: berth.template\npackage: tide\nbundles:\n"
	for _, version := range []string{"1.0.0+1", "1.0.0+2", "1.0.0+10"} {
		catalogs.WriteBundle(t, version, "tide", version, "")
		template += "- folder: " + version + "\n"
	}
	for entries, want := range map[string]string{
		"[{version: 1.0.0+2}, {version: 1.0.0+10}]": "tide.v1.0.0+2 , tide.v1.0.0+10 tide.v1.0.0+2",
		"[{version: 1.0.0}]":                        "3 bundles of this template are of version 1.0.0; give the name of one",
		"[{version: 1.0.0+3}]":                      "1.0.0+3 is not a bundle of this template",
	} {
		all := "channels: [{name: stable, entries: " + entries + "}, {name: all}]\ndefaultChannel: stable\n"
		require.NoError(t, os.WriteFile("tide.yaml", []byte(template+all), 0o644))
		configs, found, err := configsOf(t, []string{"tide.yaml"}, build.Options{})
		require.NoError(t, err)
		if len(configs) == 0 {
			if len(found) == 0 || !strings.Contains(found[0].Message, want) {
				t.Errorf("%s: got %v, want %s", entries, found, want)
			}
			continue
		}
		var got []string
		for _, e := range configs[0].Channels[0].Entries {
			got = append(got, e.Name+" "+e.Replaces)
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%s: got %s, want %s", entries, got, want)
		}
	}
}

// TestComposite: a composite template names others.
func TestComposite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "contributions.yaml")
	catalogs.Write(t, file, "schema: olm.composite\ncomponents: []\n")
	_, found, err := configsOf(t, []string{file}, build.Options{})
	if err != nil || len(found) != 1 || !strings.Contains(found[0].Message, "a composite template only names other templates") {
		t.Errorf("got %v, %v", found, err)
	}
}
