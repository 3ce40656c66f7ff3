// Package ci runs the templates for CI systems in a repository of the kind that they are for.
package ci

import (
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
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/catalogs"
)

// The folder of the catalog, and the commit to compare it with.
const (
	folder = "my/catalog"
	base   = "base"
)

// TestTemplates: each template accepts a valid catalog and reports its changes, and rejects a broken one.
func TestTemplates(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("GOFLAGS", "-trimpath -tags=grpcnotrace") // as the templates install it; with -trimpath, all clones share one build cache
	require.NoError(t, tools.Build(t.Context(), bin, nil, "./cmd/berth"))
	templates, err := filepath.Abs("../../ci")
	require.NoError(t, err)
	env := []string{"CATALOG=" + folder, "BASE=" + base, "FAIL_ON=never", "GITHUB_STEP_SUMMARY=/dev/stdout", "RUNNER_TEMP=" + t.TempDir()}
	makefile := "make --no-print-directory -f " + filepath.Join(templates, "catalog.mk") + " CATALOG_BASE=" + base + " "
	for name, script := range map[string]struct{ validate, diff string }{
		"action":   {actionStep(t, templates, "Validate"), actionStep(t, templates, "Report changes")},
		"task":     {taskScript(t, templates), taskScript(t, templates)},
		"makefile": {makefile + "catalog-validate", makefile + "catalog-diff"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &checkout{t: t, dir: t.TempDir(), env: append(env, "PATH="+bin+":"+os.Getenv("PATH"))}
			c.write("1.0.0")
			c.run("git init -q && git add . && git -c user.name=x -c user.email=x@example.com commit -q -m first && git tag " + base)
			c.write("1.1.0")
			out, ok := c.run(script.validate)
			assert.Truef(t, ok, "of a valid catalog it says: %s", out)
			if out, ok := c.run(script.diff); !ok || !strings.Contains(strings.ReplaceAll(out, "`", ""), "head: buoy.v1.0.0 → buoy.v1.1.0") {
				t.Errorf("of a changed catalog it says: %s", out)
			}
			c.run("mkdir released && git show " + base + ":" + folder + "/catalog.yaml > released/catalog.yaml")
			c.run("sed -i 's/, skipRange: <9.0.0//' " + folder + "/catalog.yaml") // strands clusters
			if out, ok := c.run(with("AGAINST", "released") + script.validate); ok || !strings.Contains(out, "no update leads from \"buoy.v1.0.0\"") {
				t.Errorf("of a catalog that does not replace the released one it says: %s", out)
			}
			c.run("berth catalog validate " + folder + " --against released -o json > known.json || true")
			if out, ok := c.run(with("AGAINST", "released") + with("BASELINE", "known.json") + script.validate); ok || !strings.Contains(out, "known.json is not in base") {
				t.Errorf("of findings that the change itself says are known it says: %s", out)
			}
			if name == "makefile" {
				if out, ok := c.run(strings.ReplaceAll(script.diff, "CATALOG_BASE="+base, "CATALOG_BASE=nowhere")); ok || !strings.HasPrefix(out, "CATALOG_BASE is nowhere, which this clone does not have: fetch it, or name another commit\n") {
					t.Errorf("of a base that there is not it says: %s", out)
				}
			}
			if name != "makefile" { // whose default base is origin/main
				if out, ok := c.run(with("BASE", "") + with("DEFAULT_BRANCH", "none") + with("AGAINST", "released") + with("BASELINE", "known.json") + script.validate); ok || !strings.Contains(out, "baseline: found no ") {
					t.Errorf("of a baseline without a base it says: %s", out)
				}
			}
			if name == "action" {
				if out, ok := c.run("git update-ref refs/remotes/origin/trunk " + base + "\n" + with("BASE", "") + with("DEFAULT_BRANCH", "trunk") + with("AGAINST", "released") + with("BASELINE", "known.json") + script.validate); ok || !strings.Contains(out, "known.json is not in origin/trunk") {
					t.Errorf("of a push to another branch, with a baseline, it says: %s", out)
				}
			}
			c.run("cp " + folder + "/catalog.yaml kept && git checkout -q " + base + " -- . && git add known.json && git -c user.name=x -c user.email=x@example.com commit -q -m known && git tag known && mv kept " + folder + "/catalog.yaml")
			if out, ok := c.run(with("BASE", "known") + with("AGAINST", "released") + with("BASELINE", "known.json") + strings.ReplaceAll(script.validate, "CATALOG_BASE="+base, "CATALOG_BASE=known")); !ok || !strings.Contains(out, "1 known from ") {
				t.Errorf("of what is known it says: %s", out)
			}
			if out, ok := c.run(script.diff); !ok || !strings.Contains(out, "LOST") {
				t.Errorf("of changes that strand clusters, and need not fail, it says: %s", out)
			}
			if out, ok := c.run(with("FAIL_ON", "lost") + script.diff); ok || !strings.Contains(out, "LOST") {
				t.Errorf("of changes that strand clusters, and must fail, it says: %s", out)
			}
			c.write("1.1.0")
			out, ok = c.run(with("FAIL_ON", "lost") + script.diff)
			assert.Truef(t, ok, "of changes that strand no clusters it says: %s", out)
			c.run("git rm -q -r --cached " + folder + " && git -c user.name=x -c user.email=x@example.com commit -q -m none && git tag none")
			if out, ok := c.run(with("BASE", "none") + strings.ReplaceAll(script.diff, "CATALOG_BASE="+base, "CATALOG_BASE=none")); !ok || !strings.Contains(strings.ReplaceAll(out, "`", ""), folder+" is new: none does not have it") {
				t.Errorf("of a new catalog it says: %s", out)
			}
			c.write("one")
			if out, ok := c.run(script.validate); ok || !strings.Contains(out, "catalog.yaml:15:") {
				t.Errorf("of a broken catalog it says: %s", out)
			}
		})
	}
	c := &checkout{t: t, dir: t.TempDir(), env: append(env, "PATH="+bin+":"+os.Getenv("PATH"))}
	c.write("1.0.0")
	drawn := "grep -c 'Updates of buoy' catalog.html"
	out, ok := c.run(makefile + "catalog-graph && " + drawn)
	assert.Truef(t, ok, "drawing a catalog, it says: %s", out)
	out, ok = c.run("mv " + folder + " gone\n! " + makefile + "catalog-graph && " + drawn + " && ! ls catalog.html.new")
	assert.Truef(t, ok, "a drawing that fails does not leave the earlier one: %s", out)
}

// with sets an input of a script: a variable of the action and the Task, and one of the makefile.
func with(input, value string) string {
	return "export " + input + "=" + value + " CATALOG_" + input + "=" + value + "\n"
}

// TestInputsAreDeclared: an undeclared input is empty without a word, and a declared one that is not used does nothing.
func TestInputsAreDeclared(t *testing.T) {
	var action, check struct{ Inputs map[string]any }
	decode(t, "../../ci/action.yml", &action)
	decode(t, "../../ci/check/action.yml", &check)
	var task struct {
		Spec struct{ Params []struct{ Name string } }
	}
	decode(t, "../../ci/task.yaml", &task)
	var params []string
	for _, p := range task.Spec.Params {
		params = append(params, p.Name)
	}
	slices.Sort(params)
	for file, declared := range map[string][]string{"action.yml": slices.Sorted(maps.Keys(action.Inputs)), "check/action.yml": slices.Sorted(maps.Keys(check.Inputs)), "task.yaml": params} {
		text, err := os.ReadFile("../../ci/" + file)
		require.NoError(t, err)
		used := map[string]bool{}
		for _, match := range regexp.MustCompile(`\b(?:inputs|params)\.([a-z-]+)`).FindAllStringSubmatch(string(text), -1) {
			used[match[1]] = true
		}
		if got := slices.Sorted(maps.Keys(used)); len(got) == 0 || !slices.Equal(got, declared) {
			t.Errorf("%s declares the inputs %q and uses %q", file, declared, got)
		}
	}
}

// dockerScript plays docker: it creates a container of an image, to copy the program out.
const dockerScript = `#!/bin/sh
case "$1 $2" in
"create quay.io/berth-csi/berth:v1.0.0") echo c0ffee ;;
"cp c0ffee:/usr/bin/berth") printf '#!/bin/sh\necho installed\n' > "$3"; chmod +x "$3" ;;
"rm c0ffee") ;;
*) echo "docker: $*" >&2; exit 1 ;;
esac
`

// TestTemplatesUseTheImage: the templates take the program from the image of a release, and build nothing.
func TestTemplatesUseTheImage(t *testing.T) {
	for _, file := range []string{"action.yml", "bump.yml", "task.yaml"} {
		text, err := os.ReadFile("../../ci/" + file)
		require.NoError(t, err)
		if !strings.Contains(string(text), " quay.io/berth-csi/berth:v1.0.0") || strings.Contains(string(text), ":latest") || strings.Contains(string(text), "go install") {
			t.Errorf("%s does not use a version of the image, or builds a program", file)
		}
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string }
		}
	}
	decode(t, "../../ci/bump.yml", &workflow)
	steps := workflow.Jobs["bump"].Steps
	bump := steps[slices.IndexFunc(steps, func(s struct{ Name, Run string }) bool { return s.Name == "Install berth" })].Run
	for name, script := range map[string]string{"action.yml": actionStep(t, "../../ci", "Install berth"), "bump.yml": bump} {
		bin, path := t.TempDir(), filepath.Join(t.TempDir(), "path")
		catalogs.Write(t, filepath.Join(bin, "docker"), dockerScript)
		require.NoError(t, os.Chmod(filepath.Join(bin, "docker"), 0o755))
		c := &checkout{t: t, dir: t.TempDir(), env: []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "RUNNER_TEMP=" + t.TempDir(), "GITHUB_PATH=" + path, "IMAGE=quay.io/berth-csi/berth:v1.0.0"}}
		out, ok := c.run(script)
		assert.Truef(t, ok, "%s: installing says: %s", name, out)
		if out, ok := c.run(`"$(cat ` + path + `)/berth"`); !ok || out != "installed\n" {
			t.Errorf("%s: what is installed says %q", name, out)
		}
	}
}

// TestActionWritesNothingForAPullRequest: a pull request can make any name in the checkout a link to another file of
// the CI machine. The action must not write through such links.
func TestActionWritesNothingForAPullRequest(t *testing.T) {
	bin, profile := t.TempDir(), filepath.Join(t.TempDir(), "profile")
	catalogs.Write(t, filepath.Join(bin, "berth"), "#!/bin/sh\necho written\n")
	require.NoError(t, os.Chmod(filepath.Join(bin, "berth"), 0o755))
	catalogs.Write(t, profile, "as it was")
	templates, err := filepath.Abs("../../ci")
	require.NoError(t, err)
	c := &checkout{t: t, dir: t.TempDir(), env: []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "CATALOG=" + folder, "RUNNER_TEMP=" + t.TempDir()}}
	require.NoError(t, os.Symlink(profile, filepath.Join(c.dir, "berth.sarif")))
	out, ok := c.run(actionStep(t, templates, "Validate"))
	assert.Truef(t, ok, "it says: %s", out)
	if content, err := os.ReadFile(profile); err != nil || string(content) != "as it was" {
		t.Errorf("a file out of the checkout holds %q, %v", content, err)
	}
}

// actionStep returns the script of a step of the GitHub Action.
func actionStep(t *testing.T, templates, name string) string {
	t.Helper()
	var action struct {
		Runs struct{ Steps []struct{ Name, Run string } }
	}
	decode(t, filepath.Join(templates, "action.yml"), &action)
	for _, step := range action.Runs.Steps {
		if step.Name == name {
			return step.Run
		}
	}
	t.Fatalf("the action has no step %q", name)
	return ""
}

// taskScript returns a script with the steps of the Tekton Task, one after the other. Their volume is a new folder.
func taskScript(t *testing.T, templates string) string {
	t.Helper()
	var task struct {
		Spec struct {
			Steps []struct {
				Script  string
				Command []string
			}
		}
	}
	decode(t, filepath.Join(templates, "task.yaml"), &task)
	script := "before=$(mktemp -d)\n"
	param := regexp.MustCompile(`\$\(params\.([a-z-]+)\)`)
	for _, step := range task.Spec.Steps {
		lines := step.Script
		for _, word := range step.Command {
			word = param.ReplaceAllStringFunc(word, func(found string) string {
				return "${" + strings.ToUpper(strings.ReplaceAll(param.FindStringSubmatch(found)[1], "-", "_")) + ":-}"
			})
			lines += ` "` + word + `"`
		}
		lines = strings.ReplaceAll(strings.ReplaceAll(lines, "/usr/bin/berth", "berth"), "/before", "$before")
		script += "(" + lines + "\n)\n"
	}
	return script
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(content, into)
	}
	require.NoError(t, err)
}

// checkout is the working directory of scripts.
type checkout struct {
	t   *testing.T
	dir string
	env []string
}

// write writes a catalog with one version.
func (c *checkout) write(version string) {
	c.t.Helper()
	catalogs.Write(c.t, filepath.Join(c.dir, folder, "catalog.yaml"), strings.ReplaceAll(`schema: olm.package
name: buoy
defaultChannel: stable
---
schema: olm.channel
package: buoy
name: stable
entries:
- {name: buoy.vVERSION, skipRange: <9.0.0}
---
schema: olm.bundle
package: buoy
name: buoy.vVERSION
image: registry.example.com/buoy:1
properties:
- {type: olm.package, value: {packageName: buoy, version: VERSION}}
`, "VERSION", version))
}

// run runs a script as CI systems do, and returns its output and whether it succeeded.
func (c *checkout) run(script string) (string, bool) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "bash", "-eo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}
