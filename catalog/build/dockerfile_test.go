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
		"te\u0301":          "",
		"tide+1.0~rc@2,a=b": "",
		".tide":             "",
		"tide\nRUN moon":    "expected letters, digits and ._+~@,=- alone",
		"tide moon":         "expected letters, digits and ._+~@,=- alone",
		"--chown=1 moon":    "expected letters, digits and ._+~@,=- alone",
		"$HOME":             "expected letters, digits and ._+~@,=- alone",
		"git@example.com:x": "expected letters, digits and ._+~@,=- alone",
		"t*":                "expected letters, digits and ._+~@,=- alone",
	} {
		dir := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		file, err := Dockerfile{Base: noProgram, Builder: BaseImage}.Write(dir)
		if want == "" {
			require.NoError(t, err, name)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Contains(t, string(text), "\nADD "+name+" /configs\n")
			continue
		}
		require.ErrorContains(t, err, want, name)
		require.NoFileExists(t, dir+".Dockerfile")
	}
}

// TestDockerfileOfThisFolder: the Dockerfile is beside the folder, also when its path does not end with its name.
func TestDockerfileOfThisFolder(t *testing.T) {
	for _, path := range []string{".", "..", "sub/.."} {
		dir := filepath.Join(t.TempDir(), "tide")
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
		t.Chdir(dir)
		if path == ".." {
			t.Chdir("sub")
		}
		file, err := Dockerfile{Base: noProgram, Builder: BaseImage}.Write(path)
		require.NoError(t, err, path)
		require.Equal(t, dir+".Dockerfile", file)
	}
}
