package catalogs_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/test/catalogs"
)

// TestGenerate generates a small catalog of each kind twice. Both are equal, and opm finds them valid.
func TestGenerate(t *testing.T) {
	for _, kind := range catalogs.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			kind.Packages, kind.Bundles = 9, 40
			var sums [2]string
			for i := range sums {
				dir := t.TempDir()
				require.NoError(t, catalogs.Generate(dir, kind))
				sums[i] = sum(t, dir)
				out, err := exec.CommandContext(t.Context(), catalogs.OPM(t), "validate", dir).CombinedOutput()
				require.NoErrorf(t, err, "opm validate\n%s", out)
			}
			assert.Equal(t, sums[1], sums[0], "the second time it is another one")
		})
	}
}

func sum(t *testing.T, dir string) string {
	t.Helper()
	hash := sha256.New()
	for _, path := range catalogs.Tree(t, dir) {
		fmt.Fprintln(hash, path)
		data, err := os.ReadFile(filepath.Join(dir, path))
		if err == nil {
			_, _ = hash.Write(data)
		} else if info, statErr := os.Stat(filepath.Join(dir, path)); statErr != nil || !info.IsDir() {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}
