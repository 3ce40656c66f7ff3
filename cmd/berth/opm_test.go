package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// makefile has the calls of opm that Makefiles of operators have, as operator-sdk and operator repositories write them, and pipeline those
// of a pipeline's step, which reads standard output and stops at the first exit code that is not 0.
const makefile = `
VERSIONS := v4.16 v4.18
LEVEL_v4.18 := --migrate-level bundle-object-to-csv-metadata

.PHONY: all
all: catalogs validate dockerfile documents

.PHONY: catalogs
catalogs:
	@set -e; for template in basic semver; do mkdir -p out/$$template; \
	opm alpha render-template $$template -o yaml < templates/$$template.yaml > out/$$template/catalog.yaml; done
	@set -e; $(foreach v,$(VERSIONS),mkdir -p out/$(v)/tide; opm alpha render-template semver -o yaml $(LEVEL_$(v)) templates/semver.yaml > out/$(v)/tide/catalog.yaml;)

.PHONY: validate
validate:
	@find out -type f -name catalog.yaml -exec sh -c 'opm validate "$$(dirname "{}")" && echo passed {} || exit 1' \; | LC_ALL=C sort

.PHONY: dockerfile
dockerfile:
	@cd out && opm generate dockerfile basic

.PHONY: documents
documents:
	@mkdir -p out/documents
	@opm init tide --default-channel=stable --description=README.md --output yaml > out/documents/catalog.yaml
	@opm render $(REGISTRY)/tide-bundle:v1.0.0 --output=yaml >> out/documents/catalog.yaml
	@opm migrate out/basic out/migrated -o yaml 2>/dev/null
	@opm alpha render-graph out/semver > out/graph.mmd
	@opm version | grep -c 'OpmVersion:"[^"]*"' > out/version

.PHONY: catalog-build
catalog-build:
	opm index add --container-tool docker --mode semver --tag $(REGISTRY)/catalog:v1 --bundles $(REGISTRY)/tide-bundle:v1.0.0
`

const pipeline = `set -eu
catalog=$1
rm -f "work/$catalog.Dockerfile"
mkdir -p "work/$catalog"
opm alpha render-template basic -o yaml templates/basic.yaml > "work/$catalog/catalog.yaml"
opm validate "work/$catalog"
opm generate dockerfile "work/$catalog"
test -s "work/$catalog.Dockerfile"
opm render -o yaml "$REGISTRY/tide-bundle:v1.1.0" > work/rendered.yaml
`

// TestMakefileOfOthers: a Makefile and a pipeline's step that call opm need no change. With the link first on the PATH they write what they
// write with the real opm.
func TestMakefileOfOthers(t *testing.T) {
	of := registry.StartSecure(t)
	dir := t.TempDir()
	for file, text := range map[string]string{
		"Makefile": makefile, "step.sh": pipeline, "README.md": "# Tide\n",
		"templates/basic.yaml": "schema: olm.template.basic\nentries:\n- {schema: olm.package, name: tide, defaultChannel: stable}\n" +
			"- {schema: olm.channel, package: tide, name: stable, entries: [{name: tide.v1.0.0}, {name: tide.v1.1.0, replaces: tide.v1.0.0}]}\n" +
			"- {schema: olm.bundle, image: \"" + of.Address + "/tide-bundle:v1.0.0\"}\n- {schema: olm.bundle, image: \"" + of.Address + "/tide-bundle:v1.1.0\"}\n",
		"templates/semver.yaml": "schema: olm.semver\ngenerateMajorChannels: true\nstable: {bundles: [{image: \"" + of.Address + "/tide-bundle:v1.0.0\"}, {image: \"" + of.Address + "/tide-bundle:v1.1.0\"}]}\n",
	} {
		catalogs.Write(t, filepath.Join(dir, file), text)
	}
	catalogs.Write(t, filepath.Join(dir, "home", ".config", "containers", "policy.json"), `{"default": [{"type": "insecureAcceptAnything"}]}`)
	// The tests may run in a Makefile themselves, whose flags are not for this one.
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=") })
	env = append(env, of.Env...)
	env = append(env, "REGISTRY="+of.Address, "HOME="+filepath.Join(dir, "home"), "XDG_CACHE_HOME="+filepath.Join(t.TempDir(), "cache"))
	for _, version := range []string{"1.0.0", "1.1.0"} {
		folder := filepath.Join(t.TempDir(), version)
		catalogs.WriteBundle(t, folder, "tide", version, "displayName: Tide")
		push := exec.Command("berth", "bundle", "image", folder, "--push", of.Address+"/tide-bundle:v"+version)
		push.Env = env
		output(t, push)
	}
	berth, err := exec.LookPath("berth")
	require.NoError(t, err)
	theirs, ours := callAll(t, dir, env, catalogs.OPM(t)), callAll(t, dir, env, berth)
	for _, got := range []map[string]string{theirs, ours} {
		for name := range got {
			if strings.HasSuffix(name, ".Dockerfile") {
				got[name] = "it has another base"
			}
		}
	}
	assert.Empty(t, cmp.Diff(theirs, ours), "-opm +ours")
}

// callAll runs the Makefile and the step in a copy of a folder, with a program as opm first on the PATH, and returns what they print and write.
func callAll(t *testing.T, of string, env []string, program string) map[string]string {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	require.NoError(t, errors.Join(os.CopyFS(dir, os.DirFS(of)), os.Symlink(program, filepath.Join(bin, "opm"))))
	got := map[string]string{}
	for _, command := range []string{"make all", "sh step.sh v4.18"} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir, cmd.Env = dir, append(env, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s with %s: %v\n%s\n%s", command, program, err, out, err.(*exec.ExitError).Stderr)
		}
		got[command] = string(out)
	}
	for _, file := range catalogs.Tree(t, dir) {
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		} else if info.Mode().IsRegular() && !strings.HasPrefix(file, "home") {
			text, err := os.ReadFile(filepath.Join(dir, file))
			require.NoError(t, err)
			got[file] = string(text)
		}
	}
	return got
}

// TestCatalogBuildOfOperatorSDK: the target of operator-sdk's Makefile that makes a SQLite catalog says what replaces it.
func TestCatalogBuildOfOperatorSDK(t *testing.T) {
	dir := t.TempDir()
	catalogs.Write(t, filepath.Join(dir, "Makefile"), makefile)
	cmd := exec.Command("make", "catalog-build")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Error: opm index is not part of Berth; it is for SQLite catalogs") {
		t.Errorf("%v, want the reason and what replaces it:\n%s", err, out)
	}
}
