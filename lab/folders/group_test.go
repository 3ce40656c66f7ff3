package folders

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestGive: everything in a folder belongs to the group, also later files, and no target of a link does.
func TestGive(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to other groups")
	}
	const group = 4000
	outside, folder := filepath.Join(t.TempDir(), "outside"), t.TempDir()
	inner := filepath.Join(folder, "inner")
	for _, step := range []error{
		os.WriteFile(outside, nil, 0o644), os.Mkdir(inner, 0o755), os.WriteFile(filepath.Join(inner, "before"), nil, 0o644),
		os.Symlink(outside, filepath.Join(inner, "link")), Features{MountGroup: true}.give(folder, "4000"),
		os.WriteFile(filepath.Join(inner, "after"), nil, 0o644),
	} {
		require.NoError(t, step)
	}
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && groupOf(t, path) != group {
			t.Errorf("%s belongs to the group %d, want %d", path, groupOf(t, path), group)
		}
		return err
	})
	assert.NoError(t, err)
	assert.NotEqualValuesf(t, group, groupOf(t, outside), "the group of %s, to which a link leads", outside)
	for _, refused := range []error{Features{}.give(folder, "4000"), Features{MountGroup: true}.give(folder, "wheel"), Features{MountGroup: true}.give(folder, "-1")} {
		assert.Equalf(t, codes.InvalidArgument, status.Code(refused), "got %v", refused)
	}
}

func groupOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Gid
}
