package catalog_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-csi/berth/catalog"
	"github.com/berth-csi/berth/test/cluster/tools"
)

var update = flag.Bool("update", false, "write the files that hold what tests expect")

// opm returns the path of the real opm, the judge of whether a catalog is valid.
func opm(t *testing.T) string {
	t.Helper()
	dir, err := tools.Ensure(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return dir.Path("opm")
}

// TestLoad reads the catalogs in testdata/load. The file "want" of each archive holds what Load says
// of the others, and its first line what real opm says: that the catalog is valid, or not.
func TestLoad(t *testing.T) {
	opm := opm(t)
	archives, err := filepath.Glob("testdata/load/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range archives {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			var want *txtar.File
			for i, file := range archive.Files {
				if file.Name == "want" {
					want = &archive.Files[i]
					continue
				}
				writeFile(t, filepath.Join("catalog", file.Name), file.Data)
			}
			got := verdict(exec.CommandContext(t.Context(), opm, "validate", "catalog").Run()) + "\n"
			if _, err := catalog.Load(t.Context(), "catalog"); err != nil {
				got += err.Error() + "\n"
			}
			if *update {
				want.Data = []byte(got)
				writeFile(t, path, txtar.Format(archive))
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func verdict(err error) string {
	if err != nil {
		return "opm: not valid"
	}
	return "opm: valid"
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
