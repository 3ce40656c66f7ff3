package build_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/test/catalogs"
)

func TestWriteReplacesWhatItMade(t *testing.T) {
	dir := t.TempDir()
	for _, bundles := range [][]string{tide[:1], tide, tide[:1]} {
		config := configOf(t, bundles)
		if _, err := fbc.Write(config, dir); err != nil {
			t.Fatal(err)
		}
		loaded, err := declcfg.LoadFS(t.Context(), os.DirFS(dir))
		require.NoError(t, err)
		if _, err := rules.Load(t.Context(), dir); err != nil {
			t.Error(err)
		}
		assert.Empty(t, cmp.Diff(config.Bundles, loaded.Bundles), "-built +loaded")
		assert.Emptyf(t, cmp.Diff([]string{"tide", "tide/catalog.yaml"}, catalogs.Tree(t, dir)), "folder after %v: -want +got", bundles)
	}
}

func TestWriteRefuses(t *testing.T) {
	config := configOf(t, tide)
	for _, tc := range []struct {
		name, file, want string
	}{
		{"another file in the package's folder", "out/tide/icon.svg",
			"folder out/tide holds icon.svg, which `berth catalog build` did not make; .*"},
		{"a bundle in the package's folder", "out/tide/manifests/csv.yaml",
			"folder out/tide holds manifests, which `berth catalog build` did not make; .*"},
		{"a catalog by another hand", "out/tide/catalog.yaml",
			"out/tide/catalog.yaml exists and was not made by `berth catalog build`: .*"},
		{"a file as the package's folder", "out/tide", `cannot write out/tide/catalog.yaml: .*not a directory`},
		{"a file as the output folder", "out", `cannot write out/tide/catalog.yaml: .*not a directory`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			catalogs.Write(t, tc.file, "by hand\n")
			before := catalogs.Tree(t, ".")
			_, err := fbc.Write(config, "out")
			if err == nil || !regexp.MustCompile(`^`+tc.want+`$`).MatchString(err.Error()) {
				t.Errorf("got error %v, want %s", err, tc.want)
			}
			assert.Empty(t, cmp.Diff(before, catalogs.Tree(t, ".")), "-before +after")
			if got, err := os.ReadFile(tc.file); err != nil || string(got) != "by hand\n" {
				t.Errorf("%s now holds %q, error %v", tc.file, got, err)
			}
		})
	}
}

func TestWriteNeedsOnePackage(t *testing.T) {
	config := configOf(t, tide)
	config.Packages = append(config.Packages, config.Packages[0])
	dir := t.TempDir()
	if _, err := fbc.Write(config, dir); err == nil {
		t.Error("got no error")
	}
	if got := catalogs.Tree(t, dir); len(got) > 0 {
		t.Errorf("wrote %v", got)
	}
}
