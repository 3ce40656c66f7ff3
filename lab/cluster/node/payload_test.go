package node

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPayloadReplacesContentAtOnce(t *testing.T) {
	folder := t.TempDir()
	steps := []struct {
		content payload
		want    map[string]string
	}{
		{payload{"a": {[]byte("1"), 0o644}, "deep/b": {[]byte("2"), 0o600}}, map[string]string{"a": "1", "deep/b": "2"}},
		{payload{"a": {[]byte("1"), 0o644}, "deep/c": {[]byte("3"), 0o640}}, map[string]string{"a": "1", "deep/c": "3"}},
		{payload{}, map[string]string{}},
		{payload{"empty": {nil, 0o644}}, map[string]string{"empty": ""}},
		{payload{"void": {nil, 0o644}}, map[string]string{"void": ""}},
		{payload{"a": {[]byte("4"), 0o400}}, map[string]string{"a": "4"}},
	}
	for i, step := range steps {
		require.NoError(t, step.content.write(folder))
		assert.Emptyf(t, cmp.Diff(step.want, visible(t, folder)), "step %d: files (-want +got)", i)
		for name, file := range step.content {
			if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Mode().Perm() != file.mode {
				t.Errorf("step %d: %s has mode %v, %v, want %v", i, name, info.Mode(), err, file.mode)
			}
		}
		// The old content is removed, and writing the same content again changes nothing.
		before, err := os.Readlink(filepath.Join(folder, dataLink))
		require.NoError(t, err)
		require.NoError(t, step.content.write(folder))
		if after, err := os.Readlink(filepath.Join(folder, dataLink)); err != nil || after != before {
			t.Errorf("step %d: writing the same content again replaced %s by %s, %v", i, before, after, err)
		}
		if contents, err := filepath.Glob(filepath.Join(folder, dataPrefix+"*")); err != nil || len(contents) != 1 {
			t.Errorf("step %d: contents on disk: %q, %v, want one", i, contents, err)
		}
	}
}

// visible reads the files like a program that knows nothing about links.
func visible(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, entry := range entries {
		if entry.Name()[0] == '.' {
			continue
		}
		root, err := filepath.EvalSymlinks(filepath.Join(folder, entry.Name()))
		require.NoError(t, err)
		err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			below, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			files[filepath.Join(entry.Name(), below)] = string(content)
			return err
		})
		require.NoError(t, err)
	}
	return files
}
