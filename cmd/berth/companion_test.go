package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-csi/berth/test/cluster/tools"
)

// TestLight runs the scripts in testdata/light with a berth that is built with the tag light, and a kubectl-berth that
// has everything.
func TestLight(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GOFLAGS", "-tags=light")
	if err := tools.Build(t.Context(), dir, nil, "./cmd/berth"); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/light",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("LIGHT", dir)
			env.Setenv("PATH", dir+string(filepath.ListSeparator)+env.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}
