package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// bomb is a document of 100 kB that becomes 98 MB by its aliases.
var bomb = "a: &rum " + strings.Repeat("x", 96<<10) + "\nb:\n" + strings.Repeat("- *rum\n", 1000)

const tide = `schema: olm.package
name: tide
defaultChannel: stable
---
schema: olm.channel
package: tide
name: stable
entries:
- name: tide.v0.1.0
---
schema: olm.bundle
package: tide
name: tide.v0.1.0
image: registry.example.com/sea/tide-bundle:0.1.0
properties:
- type: olm.package
  value:
    packageName: tide
    version: 0.1.0
`

// TestHostileYAML: each command refuses a document that expands far beyond its size, gives the position, and needs no
// more memory than for other documents.
func TestHostileYAML(t *testing.T) {
	programs, err := tools.Programs(t.Context(), "./lab/measure")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	write := func(file, content string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	write("good/catalog.yaml", tide)
	write("catalog/catalog.yaml", tide+"---\nschema: sea.example.com\n"+bomb)
	write("object/catalog.yaml", tide+"- type: olm.bundle.object\n  value:\n    data: "+base64.StdEncoding.EncodeToString([]byte("kind: Thing\n"+bomb))+"\n")
	write("template.yaml", "schema: berth.template\npackage: tide\n"+bomb)
	write("opm.yaml", "schema: olm.template.basic\nentries: []\n"+bomb)
	write("images.yaml", bomb)
	const annotations = "annotations:\n  operators.operatorframework.io.bundle.package.v1: tide\n  operators.operatorframework.io.bundle.mediatype.v1: registry+v1\n"
	for folder, file := range map[string]string{"manifests": "manifests/thing.yaml", "metadata": "metadata/dependencies.yaml", "elsewhere": "tests/scorecard/config.yaml"} {
		write(folder+"/manifests/tide.yaml", "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata:\n  name: tide.v0.1.0\nspec:\n  version: 0.1.0\n")
		write(folder+"/metadata/annotations.yaml", annotations)
		write(folder+"/"+file, "kind: Thing\n"+bomb)
	}
	for name, tc := range map[string]struct{ command, want string }{
		"validate":                              {"catalog validate catalog", "catalog/catalog.yaml:42:3: error: alias *rum stands for 98306 bytes"},
		"diff":                                  {"catalog diff good catalog", "catalog/catalog.yaml:42:3: alias *rum"},
		"lifecycle":                             {"catalog lifecycle catalog", "catalog/catalog.yaml:42:3: alias *rum"},
		"list":                                  {"catalog list packages catalog", "catalog/catalog.yaml:42:3: alias *rum"},
		"graph":                                 {"catalog graph catalog", "catalog/catalog.yaml:42:3: alias *rum"},
		"render":                                {"catalog render catalog", "catalog/catalog.yaml:42:3: alias *rum"},
		"serve":                                 {"catalog serve catalog --address 127.0.0.1:0", "catalog/catalog.yaml:42:3: alias *rum"},
		"validate a bundle's object":            {"catalog validate object", "object/catalog.yaml:21:3: error: property of type olm.bundle.object: "},
		"build from a template":                 {"catalog build template.yaml --output-dir out", "template.yaml:23:3: error: alias *rum"},
		"build from a template of opm":          {"catalog build opm.yaml --output-dir out", "opm.yaml:23:3: error: alias *rum"},
		"add to a template":                     {"catalog add opm.yaml manifests", "opm.yaml:23:3: error: alias *rum"},
		"convert to a template":                 {"catalog convert-template basic catalog", "catalog/catalog.yaml:42:3: alias *rum"},
		"build from a bundle's manifest":        {"catalog build manifests --output-dir out", "manifests/manifests/thing.yaml:22:3: error: alias *rum"},
		"build from a bundle's metadata":        {"catalog build metadata --output-dir out", "metadata/metadata/dependencies.yaml:22:3: error: alias *rum"},
		"render a bundle's manifest":            {"catalog render manifests", "manifests/manifests/thing.yaml:22:3: alias *rum"},
		"validate a bundle's manifest":          {"bundle validate manifests", "manifests/manifests/thing.yaml:22:3: error: alias *rum"},
		"validate a bundle's metadata":          {"bundle validate metadata", "metadata/metadata/dependencies.yaml:22:3: error: alias *rum"},
		"validate a bundle with something else": {"bundle validate elsewhere", "elsewhere/manifests/tide.yaml:1:1: error: (tide.v0.1.0) install modes not found"}, // it reads nothing else
		"make an image of a catalog":            {"catalog image catalog --layout image", "catalog/catalog.yaml:42:3: alias *rum"},
		"make an image of a bundle":             {"bundle image manifests --layout image", "manifests/manifests/thing.yaml:22:3: alias *rum"},
		"read what a bundle asks for":           {"bundle permissions manifests", "manifests/manifests/thing.yaml:22:3: alias *rum"},
		"generate with images":                  {"bundle generate efs --version 1.0.0 --output-dir out --images images.yaml", "line 21, column 3: alias *rum"},
	} {
		t.Run(name, func(t *testing.T) {
			output, used := fails(t, programs.Path("measure"), strings.Fields(tc.command)...)
			assert.Containsf(t, output, tc.want, "%s says", tc.command)
			if used > 200<<20 {
				t.Errorf("%s took %d MiB of memory; want less than 200", tc.command, used>>20)
			}
		})
	}
}

// fails runs berth with arguments, which must fail, and returns what it prints and how much memory it took, in bytes.
// The measurer tells the latter: of a child of this process, Linux counts the memory of this process, too.
func fails(t *testing.T, measurer string, arguments ...string) (output string, used int64) {
	t.Helper()
	printed := filepath.Join(t.TempDir(), "stdout")
	cmd := exec.CommandContext(t.Context(), measurer, append([]string{"--stdout", printed, "berth"}, arguments...)...)
	cmd.WaitDelay = time.Second
	var messages bytes.Buffer
	cmd.Stderr = &messages
	told, err := cmd.Output()
	require.NoError(t, err, messages.String())
	var usage struct {
		PeakRSS int64
		Exit    int
	}
	require.NoError(t, json.Unmarshal(told, &usage))
	assert.NotZerof(t, usage.Exit, "%s succeeds", arguments)
	text, err := os.ReadFile(printed)
	require.NoError(t, err)
	return messages.String() + string(text), usage.PeakRSS
}
