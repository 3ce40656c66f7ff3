package build_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestTemplate compares the catalog built from testdata/tide.yaml with testdata/catalog, and validates it with real opm.
func TestTemplate(t *testing.T) {
	dir := t.TempDir()
	if *update {
		dir = "testdata/catalog"
	}
	got := made(t, "testdata/tide.yaml", dir)
	want, err := os.ReadFile("testdata/catalog/tide/catalog.yaml")
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(string(want), got), "-want +got")
	if _, err := rules.Load(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if out, err := exec.CommandContext(t.Context(), catalogs.OPM(t), "validate", dir).CombinedOutput(); err != nil {
		t.Errorf("opm validate: %v\n%s", err, out)
	}
	for range 20 {
		if again := made(t, "testdata/tide.yaml", t.TempDir()); again != got {
			t.Fatalf("-first +again:\n%s", cmp.Diff(got, again))
		}
	}
}

// builtOf builds catalogs, and closes them when the test ends.
func builtOf(t *testing.T, sources []string, o build.Options) *build.Built {
	t.Helper()
	built, err := build.Templates(t.Context(), sources, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, built.Close())
	})
	return built
}

// configsOf builds catalogs, and returns their documents, which lack payload if the templates are opm's.
func configsOf(t *testing.T, sources []string, o build.Options) (configs []*declcfg.DeclarativeConfig, found []*findings.Finding, err error) {
	t.Helper()
	built, err := build.Templates(t.Context(), sources, o)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range built.Catalogs {
		configs = append(configs, c.Config)
	}
	return configs, built.Found, built.Close()
}

// made returns the text of the catalog built from a template without faults.
func made(t *testing.T, file, dir string) string {
	t.Helper()
	built := builtOf(t, []string{file}, build.Options{})
	if len(built.Found) > 0 || len(built.Catalogs) != 1 {
		t.Fatalf("%d catalogs, findings %v", len(built.Catalogs), built.Found)
	}
	written, err := built.Catalogs[0].Write(dir)
	require.NoError(t, err)
	data, err := os.ReadFile(written)
	require.NoError(t, err)
	return string(data)
}

// writeBundles writes bundle folders for templates into the working directory. Version 1.2.0 skips 1.1.0, and the first
// version replaces one of another catalog.
func writeBundles(t *testing.T) {
	t.Helper()
	for version, spec := range map[string]string{
		"1.0.0": "replaces: tide.v0.9.0",
		"1.1.0": "replaces: tide.v1.0.0",
		"1.2.0": "{replaces: tide.v1.0.0, skips: [tide.v1.1.0]}",
	} {
		spec = strings.ReplaceAll(strings.Trim(spec, "{}"), ", ", "\n  ")
		catalogs.WriteBundle(t, filepath.Join("bundles", version), "tide", version, spec)
	}
	catalogs.WriteBundle(t, "bundles/moon", "moon", "1.0.0", "")
	for folder, version := range map[string]string{"1": "2.0.0+1", "2": "2.0.0+2", "3": "2.0.0", "rc": "2.1.0-rc.1"} {
		catalogs.WriteBundle(t, filepath.Join("builds", folder), "tide", version, "")
	}
}

// TestEntries builds channels from the templates in testdata/entries, and from bundles whose 1.2.0 skips 1.1.0.
func TestEntries(t *testing.T) {
	for _, path := range catalogs.Archives(t, "testdata/entries") {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := catalogs.Extract(t, path, ".")
			writeBundles(t)
			configs, found, err := configsOf(t, []string{"tide.yaml"}, build.Options{})
			if err != nil || len(configs) != 1 {
				t.Fatalf("findings %v, error %v", found, err)
			}
			var text strings.Builder
			for _, c := range configs[0].Channels {
				fmt.Fprintf(&text, "%s:\n", c.Name)
				for _, e := range c.Entries {
					fmt.Fprintf(&text, "  %s replaces %q, skips %q, skipRange %q\n", e.Name, e.Replaces, e.Skips, e.SkipRange)
				}
			}
			pkg := configs[0].Packages[0]
			fmt.Fprintf(&text, "default %s, described by %q\n", pkg.DefaultChannel, pkg.Description)
			catalogs.Compare(t, path, archive, text.String(), *update)
		})
	}
}

// TestFaults checks that nothing is built from the templates in testdata/faults, and that all their faults are reported.
func TestFaults(t *testing.T) {
	for _, path := range catalogs.Archives(t, "testdata/faults") {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := catalogs.Extract(t, path, ".")
			writeBundles(t)
			files, err := filepath.Glob("*.yaml")
			require.NoError(t, err)
			configs, found, err := configsOf(t, files, build.Options{})
			if err != nil || configs != nil {
				t.Fatalf("%d catalogs, error %v", len(configs), err)
			}
			var text strings.Builder
			require.NoError(t, (findings.Report{Findings: found}).Write(&text, findings.Text))
			catalogs.Compare(t, path, archive, text.String(), *update)
		})
	}
}

func TestTemplateOfNothing(t *testing.T) {
	if _, _, err := configsOf(t, []string{"nothing.yaml"}, build.Options{}); err == nil || !strings.Contains(err.Error(), "nothing.yaml") {
		t.Errorf("got error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := build.Templates(ctx, []string{"testdata/tide.yaml"}, build.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

// TestImages builds from images, by tag and by digest, and compares the catalog with real opm's.
func TestImages(t *testing.T) {
	address := registry.Start(t, nil)
	var file strings.Builder
	file.WriteString("schema: berth.template\npackage: tide\nchannels: [{name: stable}]\nbundles:\n")
	var want []declcfg.Bundle
	for _, version := range []string{"0.1.0", "0.2.0"} {
		folder := filepath.Join(t.TempDir(), version)
		require.NoError(t, os.CopyFS(folder, os.DirFS("../testdata/bundles/tide/"+version)))
		catalogs.Write(t, filepath.Join(folder, "manifests", ".notes"), "by hand\n") // is no part of the bundle
		repository := address + "/sea/tide-bundle"
		digest := catalogs.PushBundle(t, folder, "tide", repository+":v"+version)
		written := repository + ":v" + version
		if version == "0.2.0" {
			written = repository + "@" + digest
		}
		fmt.Fprintf(&file, "- image: %s\n", written)
		out, err := catalogs.OPMOfImages(t, "render", "--use-http", "--migrate-level=bundle-object-to-csv-metadata", "-o", "json", repository+"@"+digest).Output()
		require.NoError(t, err, "opm render")
		rendered, err := declcfg.LoadReader(bytes.NewReader(out))
		require.NoError(t, err)
		want = append(want, rendered.Bundles...)
	}
	path := filepath.Join(t.TempDir(), "tide.yaml")
	catalogs.Write(t, path, file.String())
	dir := t.TempDir()
	made(t, path, dir)
	got, err := declcfg.LoadFS(t.Context(), os.DirFS(dir))
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(want, got.Bundles), "-opm +ours")
	if out, err := exec.CommandContext(t.Context(), catalogs.OPM(t), "validate", dir).CombinedOutput(); err != nil {
		t.Errorf("opm validate: %v\n%s", err, out)
	}
}

// TestImageFaults: findings have the line in the template, the image and its fault.
func TestImageFaults(t *testing.T) {
	address := registry.Start(t, nil)
	t.Chdir(t.TempDir())
	writeBundles(t)
	catalogs.Write(t, "broken/manifests/csv.yaml", "a: [\n")
	catalogs.Write(t, "broken/metadata/annotations.yaml", "annotations: {operators.operatorframework.io.bundle.package.v1: tide}\n")
	catalogs.Write(t, "other/moon.txt", "full\n")
	catalogs.PushBundle(t, "broken", "tide", address+"/sea/broken:v1")
	catalogs.PushBundle(t, "other", "tide", address+"/sea/other:v1")
	for image, want := range map[string]string{
		registry.Nobody() + "/sea/tide:v1": `tide.yaml:4:11: error: cannot pull image .*/sea/tide:v1: .* connection refused; check that .* can be reached from here, .* \(template-bundle\)`,
		address + "/sea/nothing:v1":        `tide.yaml:4:11: error: cannot pull image .*/sea/nothing:v1: .*; check the name: .* has no such image \(template-bundle\)`,
		"tide":                             `tide.yaml:4:11: error: image "tide": want a reference with its registry .* \(template-bundle\)`,
		address + "/sea/other:v1":          `tide.yaml:4:11: error: .*/sea/other@sha256:[0-9a-f]{64} is not a bundle image: it has no file in a folder manifests; .* \(template-bundle\)`,
		address + "/sea/broken:v1":         `.*/sea/broken@sha256:[0-9a-f]{64}/manifests/csv.yaml:1:1: error: malformed YAML: .* \(syntax\)`,
	} {
		catalogs.Write(t, "tide.yaml", "schema: berth.template\npackage: tide\nchannels: [{name: stable}]\nbundles: [{image: "+fmt.Sprintf("%q", image)+"}]\n")
		configs, found, err := configsOf(t, []string{"tide.yaml"}, build.Options{})
		if err != nil || configs != nil || len(found) != 1 {
			t.Errorf("%s: %d catalogs, findings %v, error %v", image, len(configs), found, err)
		} else if got := found[0].String(); !regexp.MustCompile(`^` + want + `$`).MatchString(got) {
			t.Errorf("%s: got\n%s\nwant\n%s", image, got, want)
		}
	}
}
