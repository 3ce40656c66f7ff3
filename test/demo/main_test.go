package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

var demonstrations = flag.Bool("demonstrations", false, "run each demonstration, which takes minutes")

// TestDemonstrations runs each demonstration to its end, in a clone of its own, as .demo belongs to the user of this one.
func TestDemonstrations(t *testing.T) {
	if !*demonstrations {
		t.Skip("-demonstrations is not set; make prove SUITE=demonstrations sets it")
	}
	root, err := tools.Root()
	require.NoError(t, err)
	clone := filepath.Join(t.TempDir(), "clone")
	out, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", root, clone).CombinedOutput()
	require.NoError(t, err, string(out))
	demo := func(ctx context.Context, what string) (string, error) {
		cmd := exec.CommandContext(ctx, "go", append([]string{"run", "./test/demo"}, strings.Fields(what)...)...)
		cmd.Dir = clone
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Cleanup(func() {
		out, err := demo(context.Background(), "down")
		assert.NoError(t, err, out)
	})
	for _, what := range []string{"up", "switch", "adopt", "csi-migration", "move", "aws", "platform aws", "platform openstack", "down"} {
		t.Run(strings.ReplaceAll(what, " ", "-"), func(t *testing.T) {
			out, err := demo(t.Context(), what)
			require.NoError(t, err, out)
			t.Log(out)
		})
	}
}

// TestPredict: before anything is built, a demonstration names in one line the parts that it will only report, and how
// to see them.
func TestPredict(t *testing.T) {
	lacking := errors.New("real nodes cannot run here; missing: a part")
	for name, test := range map[string]struct {
		what    string
		missing error
		root    bool
		says    []string
		fails   bool
	}{
		"nothing missing": {what: "up", root: true},
		"an ordinary user": {what: "up", missing: lacking, says: []string{
			"will only be reported as running", "missing: a part", `with sudo: sudo env "PATH=$PATH" make demo`}},
		"root without the packages":   {what: "switch", missing: lacking, root: true, says: []string{"will only be reported as running", "missing: a part"}},
		"a switch":                    {what: "switch", missing: lacking, says: []string{"make demo-switch"}},
		"tests":                       {what: "tools", missing: lacking, says: []string{"will be skipped", "make test"}},
		"a platform, which is all":    {what: "platform aws", missing: lacking, fails: true, says: []string{"missing: a part", "make demo-platform PLATFORM=aws"}},
		"a hand-over":                 {what: "adopt", missing: lacking, fails: true, says: []string{"make demo-adopt"}},
		"a file system":               {what: "aws", missing: lacking, root: true, fails: true, says: []string{"missing: a part"}},
		"CSI migration, without pods": {what: "csi-migration", missing: lacking},
		"a move, without nodes":       {what: "move", missing: lacking},
		"the end":                     {what: "down", missing: lacking},
	} {
		t.Run(name, func(t *testing.T) {
			said, err := predict(test.what, test.missing, test.root)
			require.Equalf(t, test.fails, err != nil, "%v", err)
			if err != nil {
				said = err.Error()
			}
			if len(test.says) == 0 && said != "" || strings.Contains(said, "\n") || test.root && strings.Contains(said, "sudo") {
				t.Errorf("it says %q", said)
			}
			for _, want := range test.says {
				assert.Contains(t, said, want)
			}
		})
	}
}

// TestLink: links of an earlier version are replaced.
func TestLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubectl")
	for _, target := range []string{"/earlier/kubectl", "/now/kubectl", "/now/kubectl"} {
		require.NoError(t, link(target, path))
		got, err := os.Readlink(path)
		assert.Equalf(t, target, got, "%v", err)
	}
}
