package ci

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// workflow holds the checked fields of a GitHub workflow.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]job
}

type job struct {
	Permissions map[string]string
	Timeout     int `json:"timeout-minutes"`
	Steps       []step
}

type step struct {
	Name string
	Run  string
	Uses string
	With map[string]any
}

// workflows are the project's own, by the names of their files.
func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	all := map[string]workflow{}
	for _, path := range workflowFiles(t) {
		var w workflow
		decode(t, path, &w)
		all[filepath.Base(path)] = w
	}
	return all
}

func workflowFiles(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("../../.github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, paths, "found no workflows")
	return paths
}

// TestWorkflowsAreValid: GitHub would run the workflows, and the one of the templates.
func TestWorkflowsAreValid(t *testing.T) {
	lint, err := tools.Program{Name: "actionlint", Package: "github.com/rhysd/actionlint/cmd/actionlint", Folder: "hack/tools"}.Ensure(t.Context(), nil)
	require.NoError(t, err)
	broken := filepath.Join(t.TempDir(), "broken.yml")
	if err := os.WriteFile(broken, []byte("on: push\njobs: {a: {runs-on: ubuntu-24.04, steps: [{run: 'echo ${{ github.event.issue.title }}'}]}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"-no-color", "-shellcheck=", "-pyflakes="}
	out, err := exec.CommandContext(t.Context(), lint, append(arguments, broken)...).CombinedOutput()
	assert.Errorf(t, err, "it finds nothing in a workflow that runs the title of an issue: %s", out)
	out, err = exec.CommandContext(t.Context(), lint, append(append(arguments, workflowFiles(t)...), "../../ci/bump.yml")...).CombinedOutput()
	assert.NoErrorf(t, err, "%s", out)
}

// TestActionsArePinned: other people's actions are pinned to the commit that somebody has reviewed.
func TestActionsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^[A-Za-z0-9-]+(/[A-Za-z0-9_-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, path := range append(workflowFiles(t), "../../ci/bump.yml", "../../ci/action.yml") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			if _, used, is := strings.Cut(line, "uses: "); is && !pinned.MatchString(used) {
				t.Errorf("%s:%d: uses %s, want ACTION@COMMIT # vVERSION", path, i+1, used)
			}
		}
	}
}

// TestWorkflowsMayLittle: a workflow may only read public data, a job needs a declaration for more, and no step finds
// the token in the checkout. Workflows that pull requests start may do nothing else.
func TestWorkflowsMayLittle(t *testing.T) {
	for name, w := range workflows(t) {
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: its permissions are %v, want contents: read", name, w.Permissions)
		}
		for id, j := range w.Jobs {
			if name == "ci.yml" && j.Permissions != nil {
				t.Errorf("%s: job %s may %v, but a pull request starts it", name, id, j.Permissions)
			}
			assert.NotZerof(t, j.Timeout, "%s: job %s has no timeout-minutes", name, id)
			for _, s := range j.Steps {
				if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
					t.Errorf("%s: job %s leaves its token in the checkout", name, id)
				}
			}
		}
	}
}

// asRoot is how a workflow runs commands as root.
const asRoot = "sudo --preserve-env=PATH "

// stepsElsewhere are the run steps of workflows that are not steps of .ci/run, and where they are tried.
var stepsElsewhere = map[string]string{
	`echo "suites=$(go run ./test/prove -matrix "$SUITE")" >> "$GITHUB_OUTPUT"`: "TestSuitesOfNight",
	`make prove SUITE="$SUITE" | tee suite.log`:                                 "by the suites themselves",
	"Take the notes of this version from the changelog":                         "TestNotesOfARelease",
	"Log in to the registry":                                                    "needs GitHub's registry",
	"Build, push and sign":                                                      "TestSignedRelease in package release, with a registry on loopback",
	"Create the release":                                                        "needs GitHub",
}

// TestWorkflowsDoWhatCIDoes: each step of .ci/run is one of a job, so that neither proves less than the other.
func TestWorkflowsDoWhatCIDoes(t *testing.T) {
	script, err := os.ReadFile("../../.ci/run")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^step (make .*)$`).FindAllStringSubmatch(string(script), -1) {
		known[match[1]] = true
	}
	require.GreaterOrEqualf(t, len(known), 5, "found only the steps %v in .ci/run", known)
	missing := maps.Clone(known)
	for name, w := range workflows(t) {
		for _, s := range runSteps(t, w) {
			command := strings.TrimPrefix(s.Run, asRoot)
			delete(missing, command)
			if !known[command] && stepsElsewhere[command] == "" && stepsElsewhere[s.Name] == "" {
				t.Errorf("%s: nothing tries the step %q", name, cmp.Or(s.Name, command))
			}
		}
	}
	assert.Empty(t, missing, "steps of .ci/run that no workflow has")
}

func runSteps(t *testing.T, w workflow) (all []step) {
	t.Helper()
	for _, j := range w.Jobs {
		for _, s := range j.Steps {
			if s.Run = strings.TrimSpace(s.Run); s.Run != "" {
				all = append(all, s)
			}
		}
	}
	return all
}

// TestSuitesOfNight runs the step that lists the suites, for all and for one.
func TestSuitesOfNight(t *testing.T) {
	var script string
	for _, s := range runSteps(t, workflows(t)["nightly.yml"]) {
		if strings.Contains(s.Run, "GITHUB_OUTPUT") {
			script = s.Run
		}
	}
	for suite, want := range map[string]func([]string) error{
		"": func(all []string) error {
			if len(all) < 20 || slices.Contains(all, "gates-replay") {
				return fmt.Errorf("found %v, want all but those that need something besides the clone", all)
			}
			return nil
		},
		"gates-replay": func(all []string) error {
			if !slices.Equal(all, []string{"gates-replay"}) {
				return fmt.Errorf("found %v, want the one", all)
			}
			return nil
		},
	} {
		output := filepath.Join(t.TempDir(), "output")
		command := exec.CommandContext(t.Context(), "bash", "-e", "-c", script)
		command.Dir = "../.."
		command.Env = append(os.Environ(), "SUITE="+suite, "GITHUB_OUTPUT="+output)
		out, err := command.CombinedOutput()
		require.NoErrorf(t, err, "%s", out)
		text, err := os.ReadFile(output)
		require.NoError(t, err)
		var names []string
		list, is := bytes.CutPrefix(text, []byte("suites="))
		if err := json.Unmarshal(list, &names); !is || err != nil {
			t.Fatalf("the output is %q: %v", text, err)
		}
		assert.NoErrorf(t, want(names), "suite %q", suite)
	}
}

// TestNotesOfARelease: the notes are the section of the version, and without one there is no release.
func TestNotesOfARelease(t *testing.T) {
	c := &checkout{t: t, dir: t.TempDir(), env: append(os.Environ(), "RUNNER_TEMP=.")}
	changelog := "# Changelog\n\n## [Unreleased]\n\nsoon\n\n## [1.10.0] - 2026-12-01\n\n### Added\n\n- a\n\n## [1.1.0] - 2026-11-01\n\n- b\n"
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "CHANGELOG.md"), []byte(changelog), 0o644))
	script := namedStep(t, "release.yml", "Take the notes of this version from the changelog")
	for tag, want := range map[string]string{"v1.10.0": "\n### Added\n\n- a\n\n", "v1.1.0": "\n- b\n"} {
		if out, ok := c.run("export GITHUB_REF_NAME=" + tag + "\n" + script + "cat notes.md"); !ok || out != want {
			t.Errorf("the notes of %s are %q, want %q", tag, out, want)
		}
	}
	if out, ok := c.run("export GITHUB_REF_NAME=v1.2.0\n" + script); ok || !strings.Contains(out, "no section [1.2.0]") {
		t.Errorf("of a version that is not there it says: %s", out)
	}
}

// namedStep returns the script of a workflow's step.
func namedStep(t *testing.T, workflow, name string) string {
	t.Helper()
	for _, s := range runSteps(t, workflows(t)[workflow]) {
		if s.Name == name {
			return s.Run + "\n"
		}
	}
	t.Fatalf("%s has no step %q", workflow, name)
	return ""
}

// TestDependenciesAreWatched: each module of the project is one that dependabot looks at.
func TestDependenciesAreWatched(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "ls-files", "*go.mod").Output()
	if err != nil {
		t.Skipf("needs a Git clone of the project: %v", err)
	}
	var want []string
	for _, file := range strings.Fields(string(out)) {
		want = append(want, filepath.Join("/", filepath.Dir(file)))
	}
	var config struct {
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directories []string
		}
	}
	decode(t, "../../.github/dependabot.yml", &config)
	var got []string
	for _, u := range config.Updates {
		if u.Ecosystem == "gomod" {
			got = append(got, u.Directories...)
		}
	}
	slices.Sort(want)
	assert.Equal(t, want, got, "dependabot looks at")
}
