package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-csi/berth/test/page"
	"github.com/berth-csi/berth/test/registry"
)

// shownElsewhere are the pages whose transcripts need a cluster, a cloud or much time, with what shows them.
var shownElsewhere = map[string]string{
	"adopt.md":         "make demo-adopt",
	"aws.md":           "make demo-aws",
	"ci.md":            "test/ci runs the templates",
	"csi-migration.md": "make demo-csi-migration",
	"support.md":       "test/e2e runs must-gather",
}

// A scene is where the commands of a transcript run.
type scene struct {
	// files is an archive in testdata with files.
	files string
	// setup are commands that run before those of the page.
	setup []string
	// says replaces parts of what the page shows, which differ from run to run.
	says map[string]string
	// varies matches what else differs from run to run, such as sizes. It is nil if nothing does.
	varies *regexp.Regexp
}

// mirrored are the scenes of what is mirrored: the catalog, and images of its bundles in a registry.
var mirrored = scene{
	files: "pages/build.txtar",
	setup: []string{
		"for version in 0.1.0 0.2.0 0.3.0; do berth bundle image bundles/$version --push $REGISTRY/example/tide-bundle:v$version || exit 1; done",
		"sed -i -e s,folder:.bundles/,'image: '$REGISTRY/example/tide-bundle:v, -e 's/  - version: 0.2.0/&\\n  - version: 0.3.0/' tide.yaml",
		"berth catalog build tide.yaml --output catalog",
	},
	says:   map[string]string{"registry.example.net": "$REGISTRY", "registry.example.com": "$MIRROR"},
	varies: regexp.MustCompile(`[0-9.]+ [KM]?i?B(/s, [0-9]+m?s left|/s)?`),
}

// scenes are those of the transcripts of berth in the pages, in their order; nil for one that needs a cluster.
var scenes = map[string][]*scene{
	"catalog.md": {
		{files: "pages/build.txtar", setup: []string{"berth bundle image bundles/0.3.0 --push $REGISTRY/example/tide-bundle:v0.3.0"}},
		{files: "pages/mistakes.txtar", says: map[string]string{"127.0.0.1:5000": "$NOBODY"}},
		{files: "pages/skips.txtar"},
		{files: "pages/skips.txtar"},
		{files: "catalog_diff.txtar", setup: []string{"berth catalog build bundles/1.0.0 --output before", "berth catalog build bundles/1.0.0 bundles/2.0.0 --output after"}},
		{files: "catalog_plan.txtar", setup: []string{"cp -r $ROOT/catalog/certified catalog/"}},
		{files: "catalog_plan.txtar"},
	},
	"disconnected.md": {&mirrored, &mirrored, &mirrored},
	"release.md": {
		{setup: []string{"mkdir bundle", "cp -r $ROOT/bundle/aws-efs-operator bundle/"}},
		{setup: []string{"mkdir bundle", "cp -r $ROOT/bundle/aws-efs-operator bundle/", "cp monitor.yaml bundle/aws-efs-operator/1.0.0/manifests/"}, files: "pages/monitor.txtar"},
		{setup: []string{"ln -s $ROOT/bundle bundle", "ln -s $ROOT/catalog catalog"}, says: map[string]string{"127.0.0.1:5000": "$REGISTRY"}},
		{files: "pages/stranded.txtar"},
	},
	"switch.md": {nil, nil, nil, nil, nil, nil, {setup: []string{"ln -s $ROOT/catalog catalog"}}},
}

// TestPages runs the commands that the pages show, and compares what they print with the pages. A line "…" there stands for any lines,
// and one that ends with "…" for any that begin so.
func TestPages(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range pages {
		name := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := transcriptsOf(string(text))
		if len(found) == 0 || shownElsewhere[name] != "" {
			continue
		}
		if len(scenes[name]) != len(found) {
			t.Errorf("%s has %d transcripts of berth, and there are scenes for %d: add one for each, or say what shows the page", name, len(found), len(scenes[name]))
			continue
		}
		for i, transcript := range found {
			if scenes[name][i] == nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", name, i+1), func(t *testing.T) { scenes[name][i].play(t, root, transcript) })
		}
	}
}

// step is a command of a transcript, and what it prints.
type step struct{ command, output string }

var block = regexp.MustCompile("(?s)(?:^|\n)```\n(\\$ (?:kubectl )?berth .*?\n)```\n")

// transcriptsOf returns the blocks of a page in which commands of berth print something.
func transcriptsOf(text string) (found [][]step) {
	for _, match := range block.FindAllStringSubmatch(text, -1) {
		var steps []step
		for _, part := range strings.Split("\n"+match[1], "\n$ ")[1:] {
			command, output, _ := strings.Cut(part, "\n")
			steps = append(steps, step{command, strings.TrimSpace(output)})
		}
		found = append(found, steps)
	}
	return found
}

// set sets a scene in a new folder. It returns how commands run there, and how variables in texts are expanded.
func (s *scene) set(t *testing.T, root string) (run func(command string) (string, error), expand func(string) string) {
	t.Helper()
	dir, address := t.TempDir(), registry.Start(t, nil)
	variables := []string{"ROOT=" + root, "REGISTRY=" + address, "MIRROR=" + registry.Start(t, nil), "NOBODY=" + registry.Nobody(), "KUBECONFIG=" + dir + "/none", "HOME=" + dir}
	environment := append(os.Environ(), variables...)
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
		if err != nil {
			t.Fatal(err)
		}
		for i := range archive.Files {
			archive.Files[i].Data = []byte(expand(string(archive.Files[i].Data)))
		}
		if err := txtar.Write(archive, dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range s.setup {
		if out, err := run(command); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	return run, expand
}

// play runs a transcript in its scene.
func (s *scene) play(t *testing.T, root string, transcript []step) {
	run, expand := s.set(t, root)
	for _, step := range transcript {
		want := step.output
		command := step.command
		for shown, actual := range s.says {
			want, command = strings.ReplaceAll(want, shown, expand(actual)), strings.ReplaceAll(command, shown, expand(actual))
		}
		printed, _ := run(command) // pages show commands that fail, too, and what they print
		got := strings.TrimSpace(printed)
		if s.varies != nil {
			want, got = s.varies.ReplaceAllString(want, "SIZE"), s.varies.ReplaceAllString(got, "SIZE")
		}
		if !shows(want, got) {
			t.Errorf("%s prints:\n%s\n\nThe page shows:\n%s", command, got, want)
		}
	}
}

// TestPageCommands runs commands of pages that show no output. Each of them must succeed.
func TestPageCommands(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		page, heading string
		scene         scene
	}{
		{"catalog.md", "## The upgrade graph", scene{setup: []string{"ln -s $ROOT/catalog catalog"}}},
		{"coming-from-opm.md", "## First commands", scene{
			files: "pages/opm.txtar",
			setup: []string{"berth catalog image before --push $REGISTRY/example/catalog:latest"},
			says:  map[string]string{"quay.io": "$REGISTRY"},
		}},
		{"release.md", "## Bundle", scene{}},
		// Nothing ends the last command.
		{"release.md", "## Catalog", scene{setup: []string{"cp -r $ROOT/bundle $ROOT/catalog ."}, says: map[string]string{"berth catalog serve catalog/certified\n": ""}}},
	} {
		t.Run(tc.page+"/"+tc.heading, func(t *testing.T) {
			run, expand := tc.scene.set(t, root)
			for _, block := range page.Blocks(t, filepath.Join(root, "docs", tc.page), tc.heading, strings.NewReplacer()) {
				if block.Language != "" || strings.HasPrefix(block.Text, "$ ") {
					continue // not of the shell, or a transcript
				}
				command := block.Text
				for shown, actual := range tc.scene.says {
					command = strings.ReplaceAll(command, shown, expand(actual))
				}
				if out, err := run("set -e\n" + command); err != nil {
					t.Errorf("%s\n%v\n%s", command, err, out)
				}
			}
		})
	}
}

// shows reports whether what a page shows is what a command printed.
func shows(shown, printed string) bool {
	var pattern strings.Builder
	pattern.WriteString("^")
	for line := range strings.SplitSeq(shown, "\n") {
		if line == "…" {
			pattern.WriteString("(?:\n.*)*")
			continue
		}
		pattern.WriteString("\n")
		begin, cut := strings.CutSuffix(line, "…")
		if pattern.WriteString(regexp.QuoteMeta(begin)); cut {
			pattern.WriteString(".*")
		}
	}
	return regexp.MustCompile(pattern.String() + "$").MatchString("\n" + printed)
}

func TestShows(t *testing.T) {
	for _, tc := range []struct {
		shown, printed string
		want           bool
	}{
		{"a\nb", "a\nb", true}, {"a\nb", "a\nb\nc", false}, {"a\n…\nc", "a\nb\nb\nc", true}, {"a\n…\nc", "a\nc", true}, {"…\nc", "a\nb\nc", true}, {"…\nc", "c", true}, {"…\nc", "a\nb", false}, {"a\n…\nc", "a\nb", false},
		{"a.", "ab", false}, {"sha256:4d…", "sha256:4dff", true}, {"sha256:4d…", "sha256:5", false}, {"", "", true}, {"", "a", false},
	} {
		if got := shows(tc.shown, tc.printed); got != tc.want {
			t.Errorf("%q shows %q: %v, want %v", tc.shown, tc.printed, got, tc.want)
		}
	}
}
