package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoFolderLeadsElsewhere: links in a folder never cause writes or deletions outside of it.
func TestNoFolderLeadsElsewhere(t *testing.T) {
	for _, link := range []string{"blobs", blobsFolder} {
		dir, elsewhere := t.TempDir(), t.TempDir()
		kept := filepath.Join(elsewhere, "kept")
		for _, err := range []error{
			os.MkdirAll(filepath.Dir(filepath.Join(dir, link)), 0o755), os.Symlink(elsewhere, filepath.Join(dir, link)), os.WriteFile(kept, nil, 0o600),
			os.WriteFile(filepath.Join(dir, layoutFile), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o600),
			os.WriteFile(filepath.Join(dir, indexFile), []byte(`{"schemaVersion":2,"manifests":[]}`), 0o600),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		f, err := NewFolder(dir)
		if err == nil {
			err = f.Finish("", "", "")
		}
		if err == nil || !strings.Contains(err.Error(), link+" is not a folder") {
			t.Errorf("%s: error %v, want that it is not a folder", link, err)
		}
		if files, err := os.ReadDir(elsewhere); err != nil || len(files) != 1 {
			t.Errorf("%s: elsewhere are now %v, %v; want the file that was there", link, files, err)
		}
	}
}
