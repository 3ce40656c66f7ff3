package catalogs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// want is the last file of an archive: a test's expectation for the others.
const want = "want"

// Archives returns the absolute paths of the archives in a folder. There must be at least one.
func Archives(t *testing.T, dir string) []string {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatalf("no archive in %s", dir)
	}
	return paths
}

// Extract writes the files of an archive, except "want", below a folder of a new working directory.
func Extract(t *testing.T, path, dir string) *txtar.Archive {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
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
	if last.Name != want {
		t.Fatalf("the last file is %s", last.Name)
	}
	if update && got != string(last.Data) {
		last.Data = []byte(got)
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(last.Data), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
