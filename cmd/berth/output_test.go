package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOutputIsOnlyTheReport: standard output can be parsed for any input, even if libraries print messages about it.
func TestOutputIsOnlyTheReport(t *testing.T) {
	const bundle, catalog = "../../bundle/rules/testdata/tide", "../../catalog/testdata/catalog"
	folders := map[string]string{"bundle": bundle, "catalog": catalog}
	for name, change := range map[string][2]string{
		"number":  {`value: "5"`, `value: 5`}, // with it, a validator of the Operator Framework prints to standard output
		"version": {"version: 1.1.0", "version: 1.1"},
		"broken":  {"spec:", "spec: ["},
		"empty":   {"apiVersion", "# nothing\n---\napiVersion"},
	} {
		dir := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.CopyFS(dir, os.DirFS(bundle)))
		file := filepath.Join(dir, "manifests", "tide.clusterserviceversion.yaml")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), change[0], change[1], 1)), 0o644))
		folders[name] = dir
	}
	for _, command := range []string{"bundle validate -o json", "bundle validate -o sarif", "bundle validate -o junit",
		"catalog validate -o json", "catalog validate -o sarif", "catalog validate -o junit", "catalog list -o json", "catalog render -o json"} {
		for name, dir := range folders {
			t.Run(command+" "+name, func(t *testing.T) {
				t.Parallel()
				run := exec.CommandContext(t.Context(), "berth", append(strings.Fields(command), dir)...)
				out, err := run.Output()
				if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				words := strings.Fields(command)
				if err := readers[words[len(words)-1]](out); err != nil {
					t.Errorf("%v in\n%s", err, out)
				}
			})
		}
	}
}
