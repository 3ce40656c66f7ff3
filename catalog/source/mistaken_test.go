package source

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestPipesStayClosed: whoever opens a pipe in a folder waits for ever.
func TestPipesStayClosed(t *testing.T) {
	for _, name := range []string{"catalog.yaml", "index.db", "database/index.db"} {
		dir := t.TempDir()
		pipe := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(pipe), 0o700))
		require.NoError(t, unix.Mkfifo(pipe, 0o600))
		ended := make(chan error, 1)
		go func() {
			opened, err := Open(t.Context(), dir)
			err = errors.Join(err, opened.Close())
			for _, path := range []string{dir, filepath.Dir(pipe), pipe} {
				err = errors.Join(err, Mistaken(path, WantCatalog))
			}
			ended <- err
		}()
		select {
		case err := <-ended:
			assert.NoError(t, err)
		case <-time.After(time.Minute):
			t.Fatalf("%s is opened", pipe)
		}
	}
}
