package attacks_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-csi/berth/test/attacks"
)

var update = flag.Bool("update", false, "write the table into docs/security.md")

// The lines of the page that the table stands between.
const (
	page  = "../../docs/security.md"
	begin = "<!-- The table is written by go test ./test/attacks -update. -->\n"
	end   = "<!-- end of the table -->\n"
)

func TestPageShowsTheTable(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(content), begin)
	shown, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s lacks the lines that the table stands between", page)
	}
	want := "\n" + attacks.Markdown()
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(shown, want); diff != "" {
		t.Errorf("%s does not show the table as it is; go test ./test/attacks -update writes it (- page, + table):\n%s", page, diff)
	}
}

// Whether its subtest exists, shows in the run only: what was not tried there fails the run.
func TestEachAttackHasItsTest(t *testing.T) {
	tests := map[string]map[string]bool{}
	seen := map[string]bool{}
	for _, a := range attacks.All() {
		if a.Attack == "" || a.Stops == "" || strings.ContainsAny(a.Attack+a.Stops, "|\n") {
			t.Errorf("%+v: want both texts, each to fit a cell of a table", a)
		}
		if seen[a.Attack] {
			t.Errorf("%q stands twice in the table", a.Attack)
		}
		seen[a.Attack] = true
		folder, test, ok := strings.Cut(a.Test, " ")
		if !ok {
			t.Errorf("%q: the test is %q, want for example \"operator TestForgedNamespace/efs\"", a.Attack, a.Test)
			continue
		}
		if tests[folder] == nil {
			tests[folder] = testsIn(t, filepath.Join("..", "..", folder))
		}
		if name, _, _ := strings.Cut(test, "/"); !tests[folder][name] {
			t.Errorf("%q: folder %s has no test %s", a.Attack, folder, name)
		}
	}
}

// testsIn returns the names of the tests of a folder.
func testsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range parsed.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok && function.Recv == nil {
				names[function.Name.Name] = true
			}
		}
	}
	return names
}
