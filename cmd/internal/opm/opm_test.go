package opm_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/cmd/internal/opm"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// tide is a catalog in a file. Its second bundle is described, the first one carries its objects.
const tide = `schema: olm.package
name: tide
defaultChannel: stable
---
schema: olm.channel
package: tide
name: stable
entries:
- name: tide.v0.1.0
- name: tide.v0.2.0
  replaces: tide.v0.1.0
  skips: [tide.v0.1.1]
  skipRange: '>=0.1.0 <0.2.0'
---
schema: olm.channel
package: tide
name: preview
entries:
- name: tide.v0.2.0
---
schema: olm.deprecations
package: tide
entries:
- reference: {schema: olm.bundle, name: tide.v0.1.0}
  message: Update.
---
schema: olm.bundle
package: tide
name: tide.v0.1.0
image: registry.example.com/sea/tide-bundle:0.1.0
properties:
- {type: olm.package, value: {packageName: tide, version: 0.1.0}}
---
schema: olm.bundle
package: tide
name: tide.v0.2.0
image: registry.example.com/sea/tide-bundle:0.2.0
properties:
- {type: olm.package, value: {packageName: tide, version: 0.2.0}}
- {type: olm.bundle.object, value: {data: eyJhcGlWZXJzaW9uIjoib3BlcmF0b3JzLmNvcmVvcy5jb20vdjFhbHBoYTEiLCJraW5kIjoiQ2x1c3RlclNlcnZpY2VWZXJzaW9uIiwibWV0YWRhdGEiOnsibmFtZSI6InRpZGUudjAuMi4wIn0sInNwZWMiOnsiZGlzcGxheU5hbWUiOiJUaWRlIiwidmVyc2lvbiI6IjAuMi4wIn19}}
relatedImages:
- {name: moon, image: "registry.example.com/moon:1"}
`

// faulty lacks the bundle of an entry.
const faulty = `schema: olm.package
name: moon
defaultChannel: stable
---
schema: olm.channel
package: moon
name: stable
entries:
- name: moon.v1.0.0
`

// calls are command lines of Makefiles and pipelines, and others that opm accepts. REGISTRY has the images of bundles and a catalog.
var calls = []struct {
	args  string
	stdin string
}{
	{args: "validate catalog"},
	{args: "validate catalog -o json"},
	{args: "validate catalog --output=yaml"},
	{args: "validate empty"},
	{args: "validate faulty"},
	{args: "validate nothing"},
	{args: "validate catalog/tide.yaml"},
	{args: "validate"},
	{args: "validate catalog catalog"},
	{args: "validate catalog -o xml"},
	{args: "validate catalog --unknown"},

	{args: "render catalog"},
	{args: "render catalog -o yaml"},
	{args: "render catalog --output yaml --migrate"},
	{args: "render catalog --migrate-level=bundle-object-to-csv-metadata"},
	{args: "render catalog --migrate-level none"},
	{args: "render catalog --migrate-level all"},
	{args: "render catalog --migrate-level some"},
	{args: "render catalog --migrate --migrate-level none"},
	{args: "render catalog -o xml"},
	{args: "render faulty"},
	{args: "render empty"},
	{args: "render empty catalog -o yaml"},
	{args: "render bundle -o yaml"},
	{args: "render bundle --alpha-image-ref-template quay.io/example/{{.Package}}-bundle:v{{.Version}}"},
	{args: "render bundle --alpha-image-ref-template quay.io/example/{{"},
	{args: "render -o yaml --use-http REGISTRY/tide-bundle:v1.0.0"},
	{args: "render --skip-tls REGISTRY/tide-bundle:v1.0.0 REGISTRY/tide-bundle:v1.1.0"},
	{args: "render --use-http REGISTRY/tide-bundle:v1.0.0 --migrate-level bundle-object-to-csv-metadata catalog"},
	{args: "render --use-http REGISTRY/catalog:v1 -o yaml"},
	{args: "render --use-http --skip-tls-verify REGISTRY/catalog:v1"},
	{args: "render --use-http REGISTRY/nothing:v1"},
	{args: "render"},

	{args: "migrate catalog new"},
	{args: "migrate catalog new -o yaml"},
	{args: "migrate catalog new --migrate-level bundle-object-to-csv-metadata -o yaml"},
	{args: "migrate catalog catalog"},
	{args: "migrate bundle new"},
	{args: "migrate catalog"},

	{args: "init tide --default-channel= --description= --icon= --output yaml"},
	{args: "init tide --default-channel=stable --description=README.md --icon=icon.svg --output yaml"},
	{args: "init tide -c stable -d README.md -i icon.png"},
	{args: "init tide -i README.md"},
	{args: "init tide -d nothing"},
	{args: "init"},

	{args: "alpha render-template basic -o yaml --use-http", stdin: "basic.yaml"},
	{args: "alpha render-template basic basic.yaml --use-http"},
	{args: "alpha render-template basic.yaml --use-http -o mermaid"},
	{args: "alpha render-template --use-http", stdin: "semver.yaml"},
	{args: "alpha render-template semver -o yaml --use-http semver.yaml"},
	{args: "alpha render-template semver -o yaml --use-http --migrate-level bundle-object-to-csv-metadata semver.yaml"},
	{args: "alpha render-template semver -o json --use-http --migrate-level bundle-object-to-csv-metadata semver.yaml"},
	{args: "alpha render-template semver --use-http basic.yaml"},
	{args: "alpha render-template catalog/tide.yaml"},
	{args: "alpha render-template composite basic.yaml"},
	{args: "alpha render-template nothing.yaml"},

	{args: "alpha convert-template basic catalog/tide.yaml"},
	{args: "alpha convert-template basic catalog/tide.yaml -o yaml"},
	{args: "alpha convert-template basic -o yaml -", stdin: "catalog/tide.yaml"},
	{args: "alpha convert-template substitutes catalog/tide.yaml -o yaml"},
	{args: "alpha convert-template basic nothing.yaml"},

	{args: "alpha list packages catalog"},
	{args: "alpha list channels catalog"},
	{args: "alpha list channels catalog tide"},
	{args: "alpha list bundles catalog"},
	{args: "alpha list bundles catalog tide"},
	{args: "alpha list bundles catalog moon"},
	{args: "alpha list packages --use-http REGISTRY/catalog:v1"},
	{args: "alpha list packages faulty"},
	{args: "alpha list packages"},

	{args: "alpha render-graph catalog"},
	{args: "alpha render-graph catalog -p tide --draw-v0-semantics"},
	{args: "alpha render-graph catalog --minimum-edge tide.v0.2.0"},
	{args: "alpha render-graph catalog --minimum-edge nothing"},
	{args: "alpha render-graph faulty"},
	{args: "alpha render-graph --use-http REGISTRY/catalog:v1"},

	{args: "generate dockerfile nothing"},
	{args: "generate dockerfile catalog/tide.yaml"},
	{args: "generate dockerfile catalog -b scratch"},
	{args: "generate dockerfile catalog -l novalue"},
	{args: "generate dockerfile catalog -i a --binary-image b"},
	{args: "generate dockerfile"},

	{args: "serve"},
	{args: "serve nothing --pprof-addr="},
	{args: "serve catalog --pprof-addr= --cache-enforce-integrity"},
	{args: "serve faulty --pprof-addr= --cache-dir=cache --cache-only"},

	{args: ""},
	{args: "alpha"},
	{args: "nothing"},
	{args: "alpha nothing"},
	{args: "--unknown"},
}

// TestLikeOPM compares each call with the real opm: its output, files and exit code.
func TestLikeOPM(t *testing.T) {
	dir, address := t.TempDir(), registry.Start(t, nil)
	writeFolder(t, dir, address)
	real := realOPM(t)
	for _, call := range calls {
		t.Run(call.args, func(t *testing.T) {
			args := strings.Fields(strings.ReplaceAll(call.args, "REGISTRY", address))
			theirs, ours := run(t, dir, call.stdin, args, real), run(t, dir, call.stdin, args, inProcess)
			assert.Emptyf(t, cmp.Diff(theirs, ours, cmp.AllowUnexported(outcome{})), "opm %s (-opm +ours)", call.args)
		})
	}
}

// TestDockerfile: the instructions in Dockerfiles equal opm's, except for the base image.
func TestDockerfile(t *testing.T) {
	dir := t.TempDir()
	catalogs.Write(t, filepath.Join(dir, "catalog", "tide.yaml"), tide)
	real := realOPM(t)
	for _, flags := range []string{"", "-i quay.io/example/base:v1", "-b quay.io/example/builder:v1", "--binary-image quay.io/example/base:v1", "-i scratch", "-l b=2,a=1 -l c=x"} {
		t.Run(flags, func(t *testing.T) {
			args := append(strings.Fields("generate dockerfile catalog"), strings.Fields(flags)...)
			theirs, ours := run(t, dir, "", args, real), run(t, dir, "", args, inProcess)
			if ours.exit != 0 || theirs.exit != 0 {
				t.Fatalf("exit codes %d of opm, and %d", theirs.exit, ours.exit)
			}
			assert.Empty(t, cmp.Diff(instructions(theirs.files["catalog.Dockerfile"]), instructions(ours.files["catalog.Dockerfile"])), "-opm +ours")
			assert.NotZero(t, runAgain(t, ours.files, args), "it replaces a Dockerfile")
		})
	}
}

// instructions are the instructions of a Dockerfile, with one name for the base image of both.
func instructions(dockerfile string) (lines []string) {
	for line := range strings.Lines(strings.NewReplacer("quay.io/operator-framework/opm:latest", "BASE", build.BaseImage, "BASE", " as builder", " AS builder").Replace(dockerfile)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// runAgain runs our opm in a folder with files, and returns the exit code.
func runAgain(t *testing.T, files map[string]string, args []string) int {
	t.Helper()
	dir := t.TempDir()
	for file, text := range files {
		catalogs.Write(t, filepath.Join(dir, file), text)
	}
	return run(t, dir, "", args, inProcess).exit
}

// TestReplaced: commands for SQLite catalogs name their replacement in one line, for any arguments.
func TestReplaced(t *testing.T) {
	for args, want := range map[string]string{
		"index add --container-tool docker --mode semver --tag catalog:v1 --bundles a,b": "berth catalog build",
		"index prune -f x":                       "berth catalog build",
		"registry serve":                         "opm serve DIR",
		"registry add -d index.db --help":        "opm serve DIR",
		"alpha bundle build --directory bundle/": "berth bundle image",
	} {
		var messages bytes.Buffer
		root := opm.New()
		root.SetErr(&messages)
		exit := opm.Execute(t.Context(), root, strings.Fields(args))
		if text := messages.String(); exit != 1 || strings.Count(text, "\n") != 1 || !strings.Contains(text, want) {
			t.Errorf("opm %s: exit code %d, want 1 and a line with %q:\n%s", args, exit, want, text)
		}
	}
}

// TestVersion: scripts look for the version of opm.
func TestVersion(t *testing.T) {
	stdout, _, exit := inProcess(t, nil, []string{"version"})
	if exit != 0 || !strings.Contains(stdout, `OpmVersion:"`+opm.Version+`"`) {
		t.Errorf("exit code %d, %q", exit, stdout)
	}
	pins, err := tools.PinsOf("lab/modules/olm")
	require.NoError(t, err)
	if pinned, err := pins.Version("github.com/operator-framework/operator-registry"); err != nil || pinned != opm.Version {
		t.Errorf("it says %s, and the tests compare with %s (%v)", opm.Version, pinned, err)
	}
}

// outcome is the result of a call.
type outcome struct {
	exit   int
	stdout string
	// said says that it printed an error, in its own words.
	said bool
	// files are the files that exist afterwards, with their contents.
	files map[string]string
}

// program runs a command line in a folder.
type program func(t *testing.T, stdin []byte, args []string) (stdout string, said bool, exit int)

// run runs a program in a copy of a folder.
func run(t *testing.T, of, stdin string, args []string, program program) outcome {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(of)))
	t.Chdir(dir)
	var input []byte
	if stdin != "" {
		input = []byte(read(t, stdin))
	}
	var o outcome
	o.stdout, o.said, o.exit = program(t, input, args)
	if o.exit == 0 {
		o.said = false // such as warnings
	}
	o.stdout = withoutMessage(o.stdout)
	o.files = map[string]string{}
	for _, file := range catalogs.Tree(t, dir) {
		if info, err := os.Stat(file); err != nil || info.IsDir() || strings.HasPrefix(file, "cache") {
			continue
		}
		o.files[file] = read(t, file)
	}
	return o
}

// withoutMessage replaces the message in the result of validate.
func withoutMessage(stdout string) string {
	before, _, found := strings.Cut(stdout, `"message": `)
	if !found {
		return stdout
	}
	return before
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// realOPM returns the real opm.
func realOPM(t *testing.T) program {
	t.Helper()
	like := catalogs.OPMOfImages(t) // it is found from the folder of the test
	return func(t *testing.T, stdin []byte, args []string) (stdout string, said bool, exit int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), like.Path, args...)
		cmd.Env = like.Env
		var out, messages bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &messages
		err := cmd.Run()
		if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		return out.String(), messages.Len() > 0, cmd.ProcessState.ExitCode()
	}
}

// inProcess runs ours.
func inProcess(t *testing.T, stdin []byte, args []string) (stdout string, said bool, exit int) {
	t.Helper()
	var out, messages bytes.Buffer
	root := opm.New()
	root.SetIn(bytes.NewReader(stdin))
	defer func(stdin *os.File) { os.Stdin = stdin }(os.Stdin)
	os.Stdin = fileWith(t, stdin)
	root.SetOut(&out)
	root.SetErr(&messages)
	exit = opm.Execute(t.Context(), root, args)
	t.Logf("it says:\n%s", messages.String())
	return out.String(), messages.Len() > 0, exit
}

// writeFolder writes the files of the calls, and pushes the images that they name.
func writeFolder(t *testing.T, dir, address string) {
	t.Helper()
	for file, text := range map[string]string{
		"catalog/tide.yaml": tide, "faulty/moon.yaml": faulty, "empty/.indexignore": "*\n",
		"README.md": "# Tide\n", "icon.svg": "<svg xmlns=\"http://www.w3.org/2000/svg\"/>", "icon.png": "\x89PNG\r\n\x1a\n",
		"basic.yaml": `schema: olm.template.basic
entries:
- {schema: olm.package, name: tide, defaultChannel: stable}
- {schema: olm.channel, package: tide, name: stable, entries: [{name: tide.v1.0.0}, {name: tide.v1.1.0, replaces: tide.v1.0.0}]}
- {schema: olm.bundle, image: "` + address + `/tide-bundle:v1.0.0"}
- {schema: olm.bundle, image: "` + address + `/tide-bundle:v1.1.0"}
`,
		"semver.yaml": `schema: olm.semver
generateMajorChannels: true
stable:
  bundles:
  - image: ` + address + `/tide-bundle:v1.0.0
  - image: ` + address + `/tide-bundle:v1.1.0
`,
	} {
		catalogs.Write(t, filepath.Join(dir, file), text)
	}
	catalogs.WriteBundle(t, filepath.Join(dir, "bundle"), "tide", "0.3.0", "")
	for _, version := range []string{"1.0.0", "1.1.0"} {
		folder := filepath.Join(t.TempDir(), version)
		catalogs.WriteBundle(t, folder, "tide", version, "displayName: Tide\n  links: [{name: sea, url: https://example.com}]")
		catalogs.PushBundle(t, folder, "tide", address+"/tide-bundle:v"+version)
	}
	content, err := build.Image(t.Context(), filepath.Join(dir, "catalog"))
	require.NoError(t, err)
	index, err := content.Index()
	require.NoError(t, err)
	_, err = oci.Push(t.Context(), address+"/catalog:v1", index)
	require.NoError(t, err)
}

// fileWith returns an open file with a content.
func fileWith(t *testing.T, content []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stdin")
	catalogs.Write(t, path, string(content))
	file, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}
