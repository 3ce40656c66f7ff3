package build

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDockerfileOfNamedFolder: the name of a folder, which may come with a pull request, adds no instruction, option or source.
func TestDockerfileOfNamedFolder(t *testing.T) {
	for name, want := range map[string]string{
		"tide-1.0_a":        "",
		"té":                "",
		"tide\nRUN moon":    "expected letters, digits and ._- alone",
		"tide moon":         "expected letters, digits and ._- alone",
		"--chown=1 moon":    "expected letters, digits and ._- alone",
		"$HOME":             "expected letters, digits and ._- alone",
		"git@example.com:x": "expected letters, digits and ._- alone",
		"t*":                "expected letters, digits and ._- alone",
	} {
		dir := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		_, err := Dockerfile{Base: noProgram, Builder: BaseImage}.Write(dir)
		if want == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, want, name)
		require.NoFileExists(t, dir+".Dockerfile")
	}
}
