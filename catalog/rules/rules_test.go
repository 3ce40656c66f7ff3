package rules_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-csi/berth/catalog"
	"github.com/berth-csi/berth/catalog/document"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/findings"
	"github.com/berth-csi/berth/test/catalogs"
)

var update = flag.Bool("update", false, "write the files that hold what tests expect")

// TestCheck reads and judges the catalogs in testdata/validate. The file "want" of each archive holds
// what is found, and its first line what real opm says. The two verdicts must be the same, but for the
// archives that differences explains.
func TestCheck(t *testing.T) {
	opm := catalogs.OPM(t)
	explained := map[string]bool{}
	for _, d := range differences {
		explained[d.archive] = true
	}
	for _, path := range archives(t, "testdata/validate") {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			archive := extract(t, path, "catalog")
			accepted := exec.CommandContext(t.Context(), opm, "validate", "catalog").Run() == nil
			got, valid := judge(t)
			if (accepted != valid) != explained[name] {
				t.Errorf("valid by opm: %v, by us: %v; is a difference explained: %v", accepted, valid, explained[name])
			}
			compare(t, path, archive, map[bool]string{true: "opm: valid\n", false: "opm: not valid\n"}[accepted]+got)
		})
	}
}

// judge returns all that is found in the catalog in folder catalog, and whether it is valid.
func judge(t *testing.T) (text string, valid bool) {
	t.Helper()
	c, found, err := catalog.Read(t.Context(), "catalog")
	if err != nil {
		return err.Error() + "\n", false
	}
	found = append(found, rules.Check(c)...)
	findings.Sort(found)
	return reportOf(t, found), findings.Count(found, findings.Error) == 0
}

func reportOf(t *testing.T, found []*findings.Finding) string {
	t.Helper()
	var text strings.Builder
	if err := (findings.Report{Findings: found}).Write(&text, findings.Text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestAgainst holds the catalogs in testdata/against, in the folder "now" of each archive, against those
// in the folder "before".
func TestAgainst(t *testing.T) {
	for _, path := range archives(t, "testdata/against") {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := extract(t, path, ".")
			before, err := rules.Load(t.Context(), "before")
			if err != nil {
				t.Fatal(err)
			}
			now, found, err := catalog.Read(t.Context(), "now")
			if err != nil || len(found) > 0 {
				t.Fatal(found, err)
			}
			compare(t, path, archive, reportOf(t, rules.Against(now, before)))
		})
	}
}

// TestLoad makes sure that what opm serves can be loaded, and nothing else, but for what differs.
func TestLoad(t *testing.T) {
	for name, want := range map[string]string{
		"valid": "", "downgrade": "", "path-skipped": "", "path-by-range": "", "bundle-dependency": "",
		"yaml-tab": "malformed YAML", "head-none": "has no head", "bundle-metadata-two": "expected at most one", "no-package": "holds no package",
	} {
		t.Run(name, func(t *testing.T) {
			path, err := filepath.Abs("testdata/validate/" + name + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			extract(t, path, "catalog")
			c, err := rules.Load(t.Context(), "catalog")
			switch {
			case want == "" && (err != nil || c == nil):
				t.Errorf("got error %v", err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("got error %v, want %s", err, want)
			}
		})
	}
}

// archives returns the absolute paths of a folder's archives.
func archives(t *testing.T, dir string) []string {
	t.Helper()
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatalf("no archive in %s", dir)
	}
	return paths
}

// extract writes the files of an archive, but for "want", below a folder of a new working directory.
func extract(t *testing.T, path, dir string) *txtar.Archive {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, file := range archive.Files {
		if file.Name != "want" {
			catalogs.Write(t, filepath.Join(dir, file.Name), string(file.Data))
		}
	}
	return archive
}

// compare holds a text against the file "want" of an archive, its last one.
func compare(t *testing.T, path string, archive *txtar.Archive, got string) {
	t.Helper()
	want := &archive.Files[len(archive.Files)-1]
	if want.Name != "want" {
		t.Fatalf("the last file is %s", want.Name)
	}
	if *update && got != string(want.Data) {
		want.Data = []byte(got)
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(want.Data), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestEveryRule makes sure that every rule is broken by some archive, but for one that takes a very
// large one; that is tested where files are cut.
func TestEveryRule(t *testing.T) {
	var said strings.Builder
	for _, path := range append(archives(t, "testdata/validate"), archives(t, "testdata/against")...) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		said.Write(data)
	}
	for _, r := range slices.Concat(rules.Rules, rules.AgainstRules) {
		if r.ID != document.Size.ID && !strings.Contains(said.String(), "("+r.ID+")\n") {
			t.Errorf("no archive breaks rule %s", r.ID)
		}
	}
}
