package attacks_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-csi/berth/test/attacks"
	"github.com/berth-csi/berth/test/page"
)

var update = flag.Bool("update", false, "write the tables into docs/attacks.md")

// table is the part of the page that has the tables.
var table = page.Part{
	File:  "../../docs/attacks.md",
	Begin: "<!-- The table is written by go test ./test/attacks -update. -->", End: "<!-- end of the table -->",
	Update: "go test ./test/attacks -update",
}

func TestPageShowsTheTable(t *testing.T) { table.Check(t, "\n"+attacks.Markdown(), *update) }

// Only a run shows whether the subtest exists: it fails if an attack was not tried.
func TestEachAttackHasItsTest(t *testing.T) {
	tests := map[string]map[string]bool{}
	seen := map[string]bool{}
	for _, a := range attacks.All() {
		if a.Attack == "" || a.Stops == "" || strings.ContainsAny(a.Attack+a.Stops, "|\n") {
			t.Errorf("%+v: want both texts, without characters that break a table cell", a)
		}
		if seen[a.Attack] {
			t.Errorf("%q is in the table twice", a.Attack)
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
