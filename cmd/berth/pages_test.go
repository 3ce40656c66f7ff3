package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/page"
)

// A scene is where the commands of a transcript run.
type scene struct {
	// files is an archive in testdata with files.
	files string
	// setup are commands that run before the page's commands.
	setup []string
	// says replaces parts of the page that differ from run to run.
	says map[string]string
	// varies matches what else differs from run to run, such as sizes. It is nil if nothing does.
	varies *regexp.Regexp
}

// mirrored is the scene for mirrors: the catalog, and images of its bundles in a registry.
var mirrored = scene{
	files: "pages/build.txtar",
	setup: []string{
		"for version in 0.1.0 0.2.0 0.3.0; do berth bundle image bundles/$version --push $REGISTRY/example/tide-bundle:v$version || exit 1; done",
		"sed -i -e s,folder:.bundles/,'image: '$REGISTRY/example/tide-bundle:v, -e 's/  - version: 0.2.0/&\\n  - version: 0.3.0/' tide.yaml",
		"berth catalog build tide.yaml --output-dir catalog",
	},
	says:   map[string]string{"registry.example.net": "$REGISTRY", "registry.example.com": "$MIRROR"},
	varies: regexp.MustCompile(`[0-9.]+ [KM]?i?B(/s, [0-9]+m?s left|/s)?`),
}

// mirroredWith is the scene for mirrors after further commands.
func mirroredWith(commands ...string) scene {
	s := mirrored
	s.setup = slices.Concat(s.setup, commands)
	return s
}

// templates are the scenes of templates of opm, with their images in a registry.
var templates = scene{
	files: "pages/templates.txtar",
	setup: []string{"for version in 1.0.0 1.1.0 1.2.0-rc.1; do berth bundle image bundles/$version --push $REGISTRY/example/tide-bundle:v$version || exit 1; done"},
}

// scenes are the scenes of the transcripts of berth in the pages, by page and heading, in their order.
var scenes = map[string]map[string][]scene{
	"catalog/catalog.md": {
		"## Build a catalog":         {{files: "pages/build.txtar", setup: []string{"berth bundle image bundles/0.3.0 --push $REGISTRY/example/tide-bundle:v0.3.0"}}},
		"## Templates of opm":        {templates},
		"### Images are not trusted": {{files: "pages/mistakes.txtar", says: map[string]string{"127.0.0.1:5000": "$NOBODY"}}},
		"## Check a catalog":         {{files: "pages/skips.txtar"}, {files: "pages/skips.txtar"}},
		"## What changes": {
			{files: "catalog_diff.txtar", setup: []string{"berth catalog build bundles/1.0.0 --output-dir before", "berth catalog build bundles/1.0.0 bundles/2.0.0 --output-dir after"}},
		},
		"## What is supported when": {{files: "catalog_lifecycle.txtar"}},
		"## What OLM will do":       {{files: "catalog_plan.txtar", setup: []string{"cp -r $ROOT/catalog/certified catalog/"}}, {files: "catalog_plan.txtar"}},
	},
	"catalog/ci.md": {"# Check catalogs in CI": {{setup: []string{"mkdir catalog && cp -R $ROOT/catalog/certified $ROOT/catalog/community catalog", "ln -s $ROOT/ci/catalog.mk Makefile"}}},
		"## Repositories of operators": {{files: "check.txtar", setup: []string{
			"mv repository/* . && git init --quiet --initial-branch=main && git add . && git -c user.name=Moon -c user.email=moon@example.com commit --quiet --message first",
			"cp -r operators/tide/1.1.0/. operators/tide/1.2.0",
			"sed -i -e s/tide[.]v1.1.0/tide.v1.2.0/ -e s/tide[.]v1.0.0/tide.v1.1.0/ operators/tide/1.2.0/manifests/*",
		}}, {files: "check.txtar", setup: []string{"mv repository/* .", "sed -i s/replaces-mode/replace-mode/ operators/tide/ci.yaml"}}},
		"## What an update asks for": {{files: "bundle_permissions.txtar"}}},
	"catalog/coming-from-opm.md": {"## With what you have": {templates}},
	"catalog/disconnected.md": {"## From registry to registry": {mirrored, mirrored}, "## By a folder": {mirrored},
		"## A file of oc-mirror": {mirroredWith(`printf 'apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\nmirror:\n  platform:\n    channels: [{name: stable-4.20}]\n  operators:\n  - catalog: catalog\n    targetCatalog: team/tides\n    packages:\n    - name: tide\n      channels: [{name: stable, minVersion: 0.2.0}]\n  additionalImages:\n  - name: '$REGISTRY'/example/tide-bundle:v0.1.0\n' > imageset.yaml`)},
		"## Delete what is not needed": {mirroredWith(`printf 'apiVersion: mirror.openshift.io/v2alpha1\nkind: DeleteImageSetConfiguration\ndelete:\n  operators:\n  - catalog: catalog\n    packages: [{name: tide, maxVersion: 0.2.0}]\n' > delete.yaml`,
			"berth catalog mirror catalog $MIRROR/mirror", "berth catalog mirror catalog $MIRROR/mirror --package 'tide/stable@>=0.2.0'")},
	},
	"move/olm-v1.md": {"## What OLM v1 refuses": {{files: "olm_v1.txtar"}}},
	"catalog/release.md": {
		"## Bundle": {
			{setup: []string{"mkdir bundle", "cp -r $ROOT/bundle/aws-efs-operator bundle/"}},
			{setup: []string{"mkdir bundle", "cp -r $ROOT/bundle/aws-efs-operator bundle/", "cp monitor.yaml bundle/aws-efs-operator/1.0.0/manifests/"}, files: "pages/monitor.txtar"},
			{setup: []string{"ln -s $ROOT/bundle bundle", "mkdir catalog && cp -R $ROOT/catalog/certified $ROOT/catalog/community catalog"}, says: map[string]string{"127.0.0.1:5000": "$REGISTRY"}},
		},
		"## Catalog": {{files: "pages/stranded.txtar"}},
	},
	"move/switch.md": {"## Versions 0.0.1 to 0.0.5": {{setup: []string{"mkdir catalog && cp -R $ROOT/catalog/certified $ROOT/catalog/community catalog"}}}},
}

// TestPages runs the commands that the pages show, and compares what they print with the pages.
func TestPages(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for name, sections := range scenes {
		for heading, scenes := range sections {
			found := page.BlocksFor(t, root, name, heading)
			if len(scenes) != len(found) {
				t.Errorf("%s, %s has %d transcripts that this test follows, and there are scenes for %d", name, heading, len(found), len(scenes))
				continue
			}
			for i, block := range found {
				t.Run(fmt.Sprintf("%s/%s/%d", name, heading, i+1), func(t *testing.T) { scenes[i].play(t, root, block.Transcript()) })
			}
		}
	}
}

// set sets a scene in a new folder. It returns how commands run there, and how variables in texts are expanded.
func (s *scene) set(t *testing.T, root string) (run func(command string) (string, error), expand func(string) string) {
	t.Helper()
	dir, address := t.TempDir(), registry.Start(t, nil)
	variables := []string{"ROOT=" + root, "REGISTRY=" + address, "MIRROR=" + registry.Start(t, nil), "NOBODY=" + registry.Nobody(), "KUBECONFIG=" + dir + "/none", "HOME=" + dir}
	environment := append(os.Environ(), variables...)
	environment = append(environment, "MAKELEVEL=0", "MAKEFLAGS=") // a make that make test runs would print more
	expand = func(text string) string {
		return os.Expand(text, func(name string) string {
			for _, pair := range variables {
				if value, found := strings.CutPrefix(pair, name+"="); found {
					return value
				}
			}
			return "$" + name
		})
	}
	run = func(command string) (string, error) {
		shell := exec.Command("sh", "-c", command)
		shell.Dir, shell.Env = dir, environment
		out, err := shell.CombinedOutput()
		return string(out), err
	}
	if s.files != "" {
		archive, err := txtar.ParseFile(filepath.Join("testdata", s.files))
		require.NoError(t, err)
		for i := range archive.Files {
			archive.Files[i].Data = []byte(expand(string(archive.Files[i].Data)))
		}
		require.NoError(t, txtar.Write(archive, dir))
	}
	for _, command := range s.setup {
		if out, err := run(command); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	return run, expand
}

// play runs a transcript in its scene.
func (s *scene) play(t *testing.T, root string, transcript []page.Step) {
	run, expand := s.set(t, root)
	for _, step := range transcript {
		want, command := step.Output, step.Command
		for shown, actual := range s.says {
			want, command = strings.ReplaceAll(want, shown, expand(actual)), strings.ReplaceAll(command, shown, expand(actual))
		}
		printed, _ := run(command) // pages show commands that fail, too, and what they print
		got := strings.TrimSpace(printed)
		if s.varies != nil {
			want, got = s.varies.ReplaceAllString(want, "SIZE"), s.varies.ReplaceAllString(got, "SIZE")
		}
		assert.Truef(t, page.Shows(want, got), "%s prints:\n%s\n\nThe page shows:\n%s", command, got, want)
	}
}

// TestPageCommands runs commands of pages that are no transcripts. Each of them must succeed, and print what the page shows.
func TestPageCommands(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, tc := range []struct {
		page, heading string
		scene         scene
	}{
		{"catalog/catalog.md", "## The upgrade graph", scene{setup: []string{"mkdir catalog && cp -R $ROOT/catalog/certified $ROOT/catalog/community catalog"}}},
		{"catalog/coming-from-opm.md", "## First commands", scene{
			files: "pages/opm.txtar",
			setup: []string{"berth catalog image before --push $REGISTRY/example/catalog:latest"},
			says:  map[string]string{"quay.io": "$REGISTRY"},
		}},
		{"catalog/release.md", "## Bundle", scene{}},
		{"catalog/release.md", "## Catalog", scene{
			setup: []string{"cp -r $ROOT/bundle $ROOT/catalog .", "mkfifo said"},
			// It serves until it is ended, and says when it serves.
			says: map[string]string{
				"serve catalog/certified\n": "serve catalog/certified --address 127.0.0.1:0 2>said &\nread -r said <said\nkill $!\necho \"$said\" | cut -d: -f1\n",
				"127.0.0.1:50051":           "127.0.0.1",
			},
		}},
	} {
		t.Run(tc.page+"/"+tc.heading, func(t *testing.T) {
			run, expand := tc.scene.set(t, root)
			for _, block := range page.BlocksFor(t, root, tc.page, tc.heading) {
				command, shows := block.Text, block.Output
				for shown, actual := range tc.scene.says {
					command, shows = strings.ReplaceAll(command, shown, expand(actual)), strings.ReplaceAll(shows, shown, expand(actual))
				}
				out, err := run("set -e\n" + command)
				assert.NoErrorf(t, err, "%s\n%s", command, out)
				assert.Truef(t, page.Shows(strings.TrimSpace(shows), strings.TrimSpace(out)), "%s prints:\n%s\n\nThe page shows:\n%s", command, out, shows)
			}
		})
	}
}
