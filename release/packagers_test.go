package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the files of package managers into testdata")

// TestPackagers: the files for package managers name each archive that they know.
func TestPackagers(t *testing.T) {
	archives := []packed{
		{workstation{"linux", "amd64"}, "berth-v1.2.3-linux-amd64.tar.gz", "01"}, {workstation{"linux", "s390x"}, "berth-v1.2.3-linux-s390x.tar.gz", "02"},
		{workstation{"darwin", "arm64"}, "berth-v1.2.3-darwin-arm64.tar.gz", "03"}, {workstation{"windows", "amd64"}, "berth-v1.2.3-windows-amd64.zip", "04"},
	}
	manifest, err := krewManifest("v1.2.3", archives)
	require.NoError(t, err)
	for name, got := range map[string]string{"krew.yaml": string(manifest), "berth.rb": formula("v1.2.3", archives)} {
		file := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Emptyf(t, cmp.Diff(string(want), got), "%s (-want +got)", file)
	}
}
