package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files of package managers into testdata")

// TestPackagers: the files for package managers name each archive that they know.
func TestPackagers(t *testing.T) {
	archives := []packed{
		{workstation{"linux", "amd64"}, "berth-v1.2.3-linux-amd64.tar.gz", "01"}, {workstation{"linux", "s390x"}, "berth-v1.2.3-linux-s390x.tar.gz", "02"},
		{workstation{"darwin", "arm64"}, "berth-v1.2.3-darwin-arm64.tar.gz", "03"}, {workstation{"windows", "amd64"}, "berth-v1.2.3-windows-amd64.zip", "04"},
	}
	manifest, err := krewManifest("v1.2.3", archives)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"krew.yaml": string(manifest), "berth.rb": formula("v1.2.3", archives)} {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}
