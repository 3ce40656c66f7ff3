package catalogs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// want is the last file of an archive: a test's expectation for the others.
const want = "want"

// Archives returns the absolute paths of the archives in a folder. There must be at least one.
func Archives(t testing.TB, dir string) []string {
	t.Helper()
	dir, err := filepath.Abs(dir)
	require.NoError(t, err)
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	require.NoError(t, err)
	require.NotEmptyf(t, paths, "no archive in %s", dir)
	return paths
}

// Files returns the files of all archives in a folder: fuzzing begins with them.
func Files(t testing.TB, dir string) (all []txtar.File) {
	t.Helper()
	for _, path := range Archives(t, dir) {
		archive, err := txtar.ParseFile(path)
		require.NoError(t, err)
		all = append(all, archive.Files...)
	}
	return all
}

// Extract writes the files of an archive, except "want", below a folder of a new working directory.
func Extract(t *testing.T, path, dir string) *txtar.Archive {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	for _, file := range archive.Files {
		if file.Name != want {
			Write(t, filepath.Join(dir, file.Name), string(file.Data))
		}
	}
	return archive
}

// Compare compares a text with the file "want" of an archive, or writes it there.
func Compare(t *testing.T, path string, archive *txtar.Archive, got string, update bool) {
	t.Helper()
	last := &archive.Files[len(archive.Files)-1]
	require.Equal(t, want, last.Name, "the last file")
	if update && got != string(last.Data) {
		last.Data = []byte(got)
		require.NoError(t, os.WriteFile(path, txtar.Format(archive), 0o644))
	}
	assert.Empty(t, cmp.Diff(string(last.Data), got), "-want +got")
}
