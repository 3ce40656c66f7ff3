package fbc

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWriteFileStaysInItsFolder: neither a link in the output folder nor one that appears while a catalog is written leads elsewhere,
// and a pipe in place of the file is refused, not waited for.
func TestWriteFileStaysInItsFolder(t *testing.T) {
	for name, tc := range map[string]struct {
		before, meanwhile func(dir, elsewhere string) error
		want              string
	}{
		"a link in place of the folder": {before: func(dir, elsewhere string) error {
			return os.Symlink(elsewhere, filepath.Join(dir, "tide"))
		}, want: "escapes"},
		"a link meanwhile": {meanwhile: func(dir, elsewhere string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "tide")), os.Symlink(elsewhere, filepath.Join(dir, "tide")))
		}, want: "escapes"},
		"a link in place of the file": {before: func(dir, elsewhere string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "tide"), 0o755), os.Symlink(filepath.Join(elsewhere, fileName), filepath.Join(dir, "tide", fileName)))
		}, want: "is not a file"},
		"a pipe": {before: func(dir, _ string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "tide"), 0o755), syscall.Mkfifo(filepath.Join(dir, "tide", fileName), 0o600))
		}, want: "is not a file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, elsewhere := t.TempDir(), t.TempDir()
			if tc.before != nil {
				require.NoError(t, tc.before(dir, elsewhere))
			}
			_, err := WriteFile(dir, "tide", func(w io.Writer) error {
				if tc.meanwhile != nil {
					return tc.meanwhile(dir, elsewhere)
				}
				return nil
			})
			assert.ErrorContains(t, err, tc.want)
			if files, err := os.ReadDir(elsewhere); err != nil || len(files) > 0 {
				t.Errorf("elsewhere are %v, %v; want nothing", files, err)
			}
			if left, err := fs.Glob(os.DirFS(dir), ".staging-*"); err != nil || len(left) > 0 {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}
