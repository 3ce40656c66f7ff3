package source

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMistakenOpensNoPipe: whoever opens a pipe in a folder waits for ever.
func TestMistakenOpensNoPipe(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "catalog.yaml")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	for _, path := range []string{dir, pipe} {
		ended := make(chan error, 1)
		go func() { ended <- Mistaken(path, WantCatalog) }()
		select {
		case err := <-ended:
			assert.NoError(t, err)
		case <-time.After(time.Minute):
			t.Fatalf("%s is opened", path)
		}
	}
}
