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

// TestKindsAreNames: a message quotes no text of a file as if it were Berth's own.
func TestKindsAreNames(t *testing.T) {
	for name, text := range map[string]string{
		"in.json": `{"kind": "Tide; run ` + "`surf`" + ` to convert it", "spec": {}}`,
		"in.yaml": "kind: Tide; run `surf` to convert it\n",
	} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		assert.EqualError(t, Mistaken(path, WantCatalog), path+" is a Kubernetes manifest of kind Tide; want a catalog: "+forms[WantCatalog])
	}
}
