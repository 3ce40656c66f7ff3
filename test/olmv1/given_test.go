package olmv1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProgramOf: a program of OLM is built with the folder that BOXCUTTER names, if that is the module that is missing.
func TestProgramOf(t *testing.T) {
	folder := func(gomod string) string {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "go.mod"), []byte(gomod), 0o644))
		return folder
	}
	for name, test := range map[string]struct{ source, err string }{
		"the module":     {source: folder("module " + boxcutter + "\n")},
		"another module": {folder("module example.com/cutter\n"), `has the source of module "example.com/cutter", want pkg.package-operator.run/boxcutter`},
		"no module":      {t.TempDir(), "BOXCUTTER names no folder with the source of pkg.package-operator.run/boxcutter"},
	} {
		t.Run(name, func(t *testing.T) {
			program, err := programOf("catalogd", test.source)
			if test.err != "" {
				assert.ErrorContains(t, err, test.err, "got error")
				return
			}
			require.NoError(t, err)
			assert.Equalf(t, test.source, program.Replaced[boxcutter], "got %+v", program)
		})
	}
}

// TestMissing: the missing requirements of a test with OLM v1 are one line.
func TestMissing(t *testing.T) {
	said := missing("catalogd")
	for _, want := range []string{"PROGRAMS=DIR", "BOXCUTTER=DIR", boxcutter + " v0.14.0"} {
		if !strings.Contains(said, want) || strings.Contains(said, "\n") {
			t.Errorf("it says %q, want one line with %q", said, want)
		}
	}
}
