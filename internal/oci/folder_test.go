package oci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
			require.NoError(t, err)
		}
		f, err := NewFolder(dir)
		if err == nil {
			err = f.Finish("", "", "")
		}
		assert.ErrorContainsf(t, err, link+" is not a folder", "%s: error", link)
		if files, err := os.ReadDir(elsewhere); err != nil || len(files) != 1 {
			t.Errorf("%s: elsewhere are now %v, %v; want the file that was there", link, files, err)
		}
	}
}

// TestLinkMeanwhile: neither does a link that somebody puts there while a folder is written.
func TestLinkMeanwhile(t *testing.T) {
	for _, link := range []string{"blobs", blobsFolder} {
		dir, elsewhere := t.TempDir(), t.TempDir()
		kept := filepath.Join(elsewhere, "kept")
		f, err := NewFolder(dir)
		require.NoError(t, err)
		for _, err := range []error{
			os.Rename(filepath.Join(dir, link), filepath.Join(dir, "former")), os.Symlink(elsewhere, filepath.Join(dir, link)),
			os.WriteFile(kept, nil, 0o600), os.Mkdir(filepath.Join(elsewhere, "sha256"), 0o755), os.WriteFile(filepath.Join(elsewhere, "sha256", "kept"), nil, 0o600),
		} {
			require.NoError(t, err)
		}
		assert.Errorf(t, f.write(blobsFolder+"/tea", strings.NewReader("tea")), "%s: a file is written through a link", link)
		assert.Errorf(t, f.sweep(func(string) bool { return true }), "%s: files are deleted through a link", link)
		var left []string
		require.NoError(t, filepath.WalkDir(elsewhere, func(path string, _ os.DirEntry, err error) error {
			left = append(left, path)
			return err
		}))
		assert.Lenf(t, left, 4, "%s: want elsewhere what was there", link)
		assert.NoError(t, f.Close())
	}
}
