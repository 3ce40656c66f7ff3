package tools

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnusedFoldersAreRemoved(t *testing.T) {
	cache := t.TempDir()
	request := func(key string) {
		t.Helper()
		_, err := once(t.Context(), cache, key, isFolder, func(Progress) {}, func(partial string) error { return os.Mkdir(partial, 0o755) })
		require.NoError(t, err)
	}
	for _, key := range []string{"unused", "used", "requested"} {
		request(key)
	}
	for key, age := range map[string]time.Duration{"unused": keptUnused + time.Hour, "used": keptUnused - time.Hour, "requested": 2 * keptUnused} {
		then := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(filepath.Join(cache, key), then, then))
	}
	request("requested")
	request("new")
	for key, want := range map[string]bool{"unused": false, "used": true, "requested": true, "new": true} {
		assert.Equalf(t, want, isFolder(filepath.Join(cache, key)), "after a week, folder %q is there", key)
	}
}
