package build_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
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
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/test/catalogs"
)

var update = flag.Bool("update", false, "write the files that hold what tests expect")

var tide = []string{"../testdata/bundles/tide/0.1.0", "../testdata/bundles/tide/0.2.0"}

// TestFolders compares the built catalog with ../testdata/catalog, and validates it with real opm.
func TestFolders(t *testing.T) {
	config := configOf(t, tide)
	golden := "../testdata/catalog"
	if *update {
		if _, err := fbc.Write(config, golden); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	written, err := fbc.Write(config, dir)
	require.NoError(t, err)
	if want := filepath.Join(dir, "tide", "catalog.yaml"); written != want {
		t.Errorf("wrote %s, want %s", written, want)
	}
	got := readFile(t, written)
	assert.Empty(t, cmp.Diff(string(readFile(t, filepath.Join(golden, "tide", "catalog.yaml"))), string(got)), "-want +got")
	if out, err := exec.CommandContext(t.Context(), catalogs.OPM(t), "validate", dir).CombinedOutput(); err != nil {
		t.Errorf("opm validate: %v\n%s", err, out)
	}
}

// configOf returns the documents of the catalog of bundles in which nothing is wrong.
func configOf(t *testing.T, dirs []string) *declcfg.DeclarativeConfig {
	t.Helper()
	built, err := build.Folders(t.Context(), dirs, build.ByReplaces, nil)
	require.NoError(t, err)
	require.Zero(t, findings.Count(built.Found, findings.Error), built.Found)
	return built.Catalogs[0].Config
}

func TestFoldersIsDeterministic(t *testing.T) {
	first := configOf(t, tide)
	for range 50 { // Go varies the order of small maps but rarely
		again := configOf(t, []string{tide[1], tide[0]})
		require.Empty(t, cmp.Diff(first, again), "-first +again, from the folders in another order")
	}
}

// TestFoldersRendersLikeOpm: real opm renders the same from the folders of the tests and of the project's bundles.
func TestFoldersRendersLikeOpm(t *testing.T) {
	shipped, err := filepath.Glob("../../bundle/*/*/manifests")
	require.NoError(t, err)
	dirs := tide
	for _, manifests := range shipped {
		dirs = append(dirs, filepath.Dir(manifests))
	}
	for _, dir := range dirs {
		t.Run(strings.ReplaceAll(dir, "/", "_"), func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), catalogs.OPM(t), "render", dir, "-o", "json").Output()
			if err != nil {
				t.Fatalf("opm render: %v\n%s", err, stderrOf(err))
			}
			want, err := declcfg.LoadReader(bytes.NewReader(out))
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(want.Bundles, configOf(t, []string{dir}).Bundles), "-opm +ours")
		})
	}
}

// TestShippedCatalogs validates the catalogs that the project ships, also with real opm.
func TestShippedCatalogs(t *testing.T) {
	packages, err := filepath.Glob("../*/*/catalog.yaml")
	require.NoError(t, err)
	if len(packages) == 0 {
		t.Error("there is none")
	}
	for _, file := range packages {
		dir := filepath.Dir(filepath.Dir(file))
		t.Run(dir, func(t *testing.T) {
			if _, err := rules.Load(t.Context(), dir); err != nil {
				t.Error(err)
			}
			if out, err := exec.CommandContext(t.Context(), catalogs.OPM(t), "validate", dir).CombinedOutput(); err != nil {
				t.Errorf("opm validate: %v\n%s", err, out)
			}
		})
	}
}

func stderrOf(err error) []byte {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.Stderr
	}
	return nil
}

// TestFoldersRefuses breaks copies of the two bundles, in folders "old" and "new".
func TestFoldersRefuses(t *testing.T) {
	const (
		csv         = "manifests/tide.clusterserviceversion.yaml"
		crd         = "manifests/tides.sea.example.com.crd.yaml"
		annotations = "metadata/annotations.yaml"
	)
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T)
		want  string // a regular expression for the error and all findings that are errors
	}{
		{"no such folder", func(t *testing.T) { remove(t, "old") },
			`bundle folder: stat old: no such file or directory`},
		{"no ClusterServiceVersion", func(t *testing.T) { remove(t, "old/"+csv) },
			`old/manifests: error: old is not a bundle folder: it has no ClusterServiceVersion, only manifests/tides.sea.example.com.crd.yaml \(CustomResourceDefinition\); expected .*`},
		{"two ClusterServiceVersions", func(t *testing.T) { catalogs.Write(t, "old/manifests/x.yaml", string(readFile(t, "old/"+csv))) },
			`old/manifests/x.yaml:1: error: a second ClusterServiceVersion, besides the one in old/manifests/tide.clusterserviceversion.yaml; .*`},
		{"malformed manifest", func(t *testing.T) { edit(t, "old/"+crd, `(?m)^  names:`, "   names:") },
			`old/manifests/tide.clusterserviceversion.yaml:31:5: error: every API .*\nold/manifests/tides.sea.example.com.crd.yaml:8:4: error: malformed YAML: .* \(syntax\)`},
		{"no object", func(t *testing.T) { catalogs.Write(t, "old/manifests/x.yaml", "a: b\n") },
			`old/manifests/x.yaml:1: error: expected a Kubernetes object, .*'Kind' is missing.*`},
		{"two objects in a file", func(t *testing.T) { edit(t, "old/"+crd, `$`, "---\nkind: Service\napiVersion: v1\n") },
			`old/manifests/tides.sea.example.com.crd.yaml:31: error: a second document begins here; .*`},
		{"no metadata", func(t *testing.T) { remove(t, "old/metadata") },
			`old: error: old is not a bundle folder: it has no folder metadata; expected .*`},
		{"no annotations", func(t *testing.T) { remove(t, "new/"+annotations) },
			`new/metadata: error: new is not a bundle folder: no file in its folder metadata has the annotation operators.operatorframework.io.bundle.package.v1; .*`},
		{"other format", func(t *testing.T) { edit(t, "old/"+annotations, `registry\+v1`, "helm") },
			`old/metadata/annotations.yaml:\d+:3: error: annotation .*mediatype.v1 is "helm"; expected "registry\+v1", .*`},
		{"no channel", func(t *testing.T) { edit(t, "old/"+annotations, `.*channels.v1: stable\n`, "") },
			`old/metadata/annotations.yaml:1: error: no annotation .*channels.v1; .*`},
		{"channel is a number", func(t *testing.T) { edit(t, "old/"+annotations, `channels.v1: stable`, "channels.v1: 1.0") },
			`old/metadata/annotations.yaml:6:3: error: annotation .*channels.v1 is read as "1"; put its value in quotes \(field\)`},
		{"malformed dependency", func(t *testing.T) {
			edit(t, "new/metadata/dependencies.yaml", `packageName: moon`, "packageName: [moon]")
		},
			`new/manifests/tide.clusterserviceversion.yaml:2:1: error: .*packageName.* \(bundle-folder\)`},
		{"no version", func(t *testing.T) { edit(t, "old/"+csv, `version: 0.1.0`, "version: one") },
			`old/manifests/tide.clusterserviceversion.yaml:10:3: error: spec.version: invalid semver version "one" .* \(bundle-folder\)`},
		{"CRD missing", func(t *testing.T) { remove(t, "old/"+crd) },
			`old/manifests/tide.clusterserviceversion.yaml:31:5: error: every API that .* needs its CustomResourceDefinition in old/manifests: .*tides.*`},
		{"malformed properties", func(t *testing.T) { edit(t, "new/"+csv, `olm.properties: .*`, "olm.properties: salt") },
			`new/manifests/tide.clusterserviceversion.yaml:\d+:5: error: annotation olm.properties: expected a JSON array .*`},
		{"same version", func(t *testing.T) { edit(t, "new/"+csv, `version: 0.2.0`, "version: 0.1.0") },
			`new/manifests/tide.clusterserviceversion.yaml:12:3: error: version 0.1.0 is also of old/manifests/tide.clusterserviceversion.yaml, in package tide; .* \(bundle-folders\)`},
		{"same name", func(t *testing.T) { edit(t, "new/"+csv, `name: tide.v0.2.0`, "name: tide.v0.1.0") },
			`new/manifests/tide.clusterserviceversion.yaml:5:3: error: name tide.v0.1.0 is also of old/manifests/tide.clusterserviceversion.yaml, in package tide; .* \(bundle-folders\)`},
		{"two packages", func(t *testing.T) { edit(t, "new/"+annotations, `package.v1: tide`, "package.v1: moon") },
			`new/metadata/annotations.yaml:5:3: error: the bundle is of package moon, but old/metadata/annotations.yaml is of package tide; .*`},
		{"default channel is empty", func(t *testing.T) { edit(t, "new/"+annotations, `default.v1: stable`, "default.v1: fast") },
			`new/metadata/annotations.yaml:7:3: error: annotation .*channel.default.v1 is "fast", but no bundle is part of that channel; expected one of preview, stable \(bundle-folder\)`},
		{"no default channel", func(t *testing.T) {
			for _, dir := range []string{"old", "new"} {
				edit(t, filepath.Join(dir, annotations), `.*default.v1: stable\n`, "")
			}
		}, `new/metadata/annotations.yaml:1: error: no bundle of package tide has the annotation .*channel.default.v1; expected one of the package's channels preview, stable \(bundle-folder\)`},
		{"no update between the versions", func(t *testing.T) { edit(t, "new/"+csv, `  replaces: .*\n`, "") },
			`new/manifests/tide.clusterserviceversion.yaml:10:1: error: channel "stable" has 2 heads, tide.v0.1.0, tide.v0.2.0; .*`},
		{"a cycle", func(t *testing.T) { edit(t, "old/"+csv, `(?m)^spec:`, "spec:\n  replaces: tide.v0.2.0") },
			`new/manifests/tide.clusterserviceversion.yaml:13:3: error: channel "stable" has no head: its entries replace or skip each other in a cycle, .*`},
		{"malformed skipRange", func(t *testing.T) { edit(t, "new/"+csv, `olm.skipRange: .*`, "olm.skipRange: later") },
			`new/manifests/tide.clusterserviceversion.yaml:8:5: error: skipRange of entry "tide.v0.2.0" .* is "later"; .*`},
		{"skips nothing", func(t *testing.T) { edit(t, "new/"+csv, `  - tide.v0.1.1`, `  - ""`) },
			"new/manifests/tide.clusterserviceversion.yaml:15:5: error: entry \"tide.v0.2.0\" of channel \"preview\" skips an empty name \\(entry-skips\\)\n" + `.*:15:5: .* "stable" skips an empty name \(entry-skips\)`},
		{"no name of a package", func(t *testing.T) {
			for _, dir := range []string{"old", "new"} {
				edit(t, filepath.Join(dir, annotations), `package.v1: tide`, "package.v1: High_Tide")
			}
		}, `new/metadata/annotations.yaml:1:1: error: package name "High_Tide": .*`},
		{"faults in both", func(t *testing.T) { remove(t, "old/"+csv); remove(t, "new/metadata") },
			`new: error: new is not a bundle folder: .*\nold/manifests: error: old is not a bundle folder: .*`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for i, copied := range []string{"old", "new"} {
				require.NoError(t, os.CopyFS(filepath.Join(dir, copied), os.DirFS(tide[i])))
			}
			t.Chdir(dir)
			configOf(t, []string{"old", "new"}) // before it is broken
			tc.spoil(t)
			built, err := build.Folders(t.Context(), []string{"old", "new"}, build.ByReplaces, nil)
			if len(built.Catalogs) > 0 {
				t.Fatalf("got %v, want no catalog", built.Catalogs)
			}
			var got []string
			if err != nil {
				got = append(got, err.Error())
			}
			for _, f := range built.Found {
				if f.Severity == findings.Error {
					got = append(got, f.String())
				}
			}
			if got := strings.Join(got, "\n"); !regexp.MustCompile(`(?s)^` + tc.want + `$`).MatchString(got) {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestFoldersOfNothing(t *testing.T) {
	if _, err := build.Folders(t.Context(), nil, build.ByReplaces, nil); err == nil {
		t.Error("got no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := build.Folders(ctx, tide, build.ByReplaces, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

func remove(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(path))
}

// edit replaces the match of a regular expression in a file.
func edit(t *testing.T, path, pattern, replacement string) {
	t.Helper()
	before := readFile(t, path)
	after := regexp.MustCompile(pattern).ReplaceAll(before, []byte(replacement))
	if bytes.Equal(before, after) {
		t.Fatalf("%s holds nothing that matches %s", path, pattern)
	}
	catalogs.Write(t, path, string(after))
}
