package ci

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/catalogs"
)

// actionPart is a step of a GitHub Action: a script, or another action with inputs.
type actionPart struct {
	Name, If, Run, Uses string
	Env, With           map[string]string
}

// runner runs the steps of an action as GitHub does.
type runner struct {
	*checkout
	contexts map[string]string // the values of ${{ }}
	path     string            // the file $GITHUB_PATH
	// said is the output of each script, and used the inputs of each other action, by name.
	said   map[string]string
	used   map[string]map[string]string
	failed bool
}

var expression = regexp.MustCompile(`\$\{\{\s*([^}]*?)\s*\}\}`)

// filled returns a text with the values of its expressions. One without a value is a fault of the action.
func (r *runner) filled(text string) string {
	return expression.ReplaceAllStringFunc(text, func(found string) string {
		name := expression.FindStringSubmatch(found)[1]
		value, known := r.contexts[name]
		if !known {
			r.t.Errorf("the action uses %q, which has no value", name)
		}
		return value
	})
}

// run runs a step, unless one before it failed and it does not say that it runs always.
func (r *runner) step(s actionPart) {
	r.t.Helper()
	if r.failed && !strings.Contains(s.If, "always()") || strings.Contains(s.If, "upload-sarif == 'true'") && r.contexts["inputs.upload-sarif"] != "true" {
		return
	}
	if s.Uses != "" {
		name, _, _ := strings.Cut(s.Uses, "@")
		inputs := map[string]string{}
		for key, value := range s.With {
			inputs[key] = r.filled(value)
		}
		r.used[name] = inputs
		return
	}
	with := r.checkout.env
	for key, value := range s.Env {
		r.checkout.env = append(r.checkout.env, key+"="+r.filled(value))
	}
	out, ok := r.run(s.Run)
	r.checkout.env = with
	r.said[s.Name], r.failed = out, !ok
	if added, err := os.ReadFile(r.path); err == nil && len(added) > 0 {
		r.checkout.env = append(with, "PATH="+strings.TrimSpace(string(added))+":"+os.Getenv("PATH"))
	}
}

// TestCheckAction runs the action for repositories of operators, step by step, in one with a branch that adds a bundle.
func TestCheckAction(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("GOFLAGS", "-trimpath -tags=grpcnotrace")
	require.NoError(t, tools.Build(t.Context(), bin, nil, "./cmd/berth"))
	catalogs.Write(t, filepath.Join(bin, "docker"), strings.Replace(dockerScript, `printf '#!/bin/sh\necho installed\n' > "$3"; chmod +x "$3"`, `cp "`+bin+`/berth" "$3"`, 1))
	require.NoError(t, os.Chmod(filepath.Join(bin, "docker"), 0o755))
	docker := t.TempDir()
	require.NoError(t, os.Rename(filepath.Join(bin, "docker"), filepath.Join(docker, "docker")))
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct{ Steps []actionPart }
	}
	decode(t, "../../ci/check/action.yml", &action)
	archive, err := txtar.ParseFile("../../cmd/berth/testdata/check.txtar")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		change string // a script
		ok     bool
		// summary, sarif and annotated are expected parts of the output.
		summary   []string
		annotated string // FILE:LINE
	}{
		"a bundle with a fault": {
			"cp -r operators/tide/1.1.0/. operators/tide/1.2.0 && sed -i -e s/tide[.]v1.1.0/tide.v1.2.0/ -e s/tide[.]v1.0.0/tide.v1.1.0/ -e 's/^              - name: tide$/&\\n                securityContext: {privileged: true}/' operators/tide/1.2.0/manifests/*",
			false, []string{
				"### berth check: 1 error, 1 warning, 0 known\n", "(`folder-version`)\n",
				"### What changes\n\n- bundles added: `tide/1.2.0`\n",
				"### What `tide/1.2.0` asks for, against `tide/1.1.0`\n\n- asks for more than before, the worst first\n  - `Deployment tide: container tide is privileged`: is root on the node\n",
				"### Updates of `tide`\n\n```mermaid\n%% tide\nflowchart BT\n", " (head, new)\"]:::new\n", "\n```\n",
			}, "operators/tide/1.2.0/manifests/tide.clusterserviceversion.yaml:17"},
		"a package in a catalog": {
			"sed -i s,quay.io/ebbs/,quay.io/tides/, catalogs/v4.20/tide/catalog.yaml",
			true, []string{"### berth check: 0 errors, 0 warnings, 0 known\n", "- packages in catalogs: `v4.20/tide`\n", "### What changes for clusters from `the commit before` to `v4.20/tide`:\n", "- rewritten under the same name, so clusters that have it installed do not get the new one: `tide.v1.0.0`\n", "### Updates of `tide in v4.20`\n\n```mermaid\n"}, ""},
		"nothing": {"true", true, []string{"### What changes\n\n- nothing\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			temp, home := t.TempDir(), t.TempDir()
			summary := filepath.Join(temp, "summary.md")
			r := &runner{checkout: &checkout{t: t, dir: t.TempDir()}, path: filepath.Join(temp, "path"), said: map[string]string{}, used: map[string]map[string]string{},
				contexts: map[string]string{"runner.temp": temp, "github.run_id": "1"}}
			r.env = []string{"PATH=" + docker + ":" + os.Getenv("PATH"), "HOME=" + home, "XDG_CACHE_HOME=" + home, "RUNNER_TEMP=" + temp, "GITHUB_PATH=" + r.path, "GITHUB_STEP_SUMMARY=" + summary}
			for input, of := range action.Inputs {
				r.contexts["inputs."+input] = of.Default
			}
			for _, file := range archive.Files {
				if below, is := strings.CutPrefix(file.Name, "repository/"); is {
					catalogs.Write(t, filepath.Join(r.dir, below), string(file.Data))
				}
			}
			out, ok := r.run("git init -q && git add . && git -c user.name=x -c user.email=x@example.com commit -q -m first && git tag " + base + " && " + tc.change)
			require.True(t, ok, out)
			r.contexts["inputs.base"] = base
			for _, s := range action.Runs.Steps {
				r.step(s)
			}
			assert.Equalf(t, tc.ok, !r.failed, "the check succeeded: %s", r.said["Check"])
			text, err := os.ReadFile(summary)
			require.NoError(t, err)
			for _, want := range tc.summary {
				assert.Contains(t, string(text), want, "the summary")
			}
			if got := annotations(t, r.used["github/codeql-action/upload-sarif"]["sarif_file"]); got[tc.annotated] == "" && tc.annotated != "" || tc.annotated == "" && len(got) > 0 {
				t.Errorf("annotated are %v, want %q", got, tc.annotated)
			}
			assert.Equal(t, "~/.cache/berth/checks", r.used["actions/cache"]["path"], "what is kept")
		})
	}
}

// annotations returns the errors in a SARIF file, by FILE:LINE.
func annotations(t *testing.T, file string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	var log struct {
		Runs []struct {
			Results []struct {
				Level     string
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine json.Number }
					}
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(content, &log))
	all := map[string]string{}
	for _, result := range log.Runs[0].Results {
		at := result.Locations[0].PhysicalLocation
		if result.Level == "error" {
			all[at.ArtifactLocation.URI+":"+string(at.Region.StartLine)] = result.Message.Text
		}
	}
	return all
}
