package trials

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-csi/berth/test/page"
)

var update = flag.Bool("update", false, "write the tables into docs/attacks.md and docs/adopt.md")

// TestPagesShowTheTables: docs/attacks.md and docs/adopt.md have what is listed here.
func TestPagesShowTheTables(t *testing.T) {
	const command = "go test ./test/trials -update"
	for file, want := range map[string]string{"attacks.md": attackTables(), "adopt.md": failureTable() + "\n"} {
		page.Part{
			File: "../../docs/" + file, Begin: "<!-- The table is written by " + command + ". -->", End: "<!-- end of the table -->", Update: command,
		}.Check(t, "\n"+want, *update)
	}
}

// Only a run shows whether the subtest exists: it fails if an attack was not tried.
func TestEachAttackHasItsTest(t *testing.T) {
	tests := map[string]map[string]bool{}
	seen := map[string]bool{}
	for _, a := range all() {
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

func all() (attacks []Attack) {
	for _, area := range Areas {
		attacks = append(attacks, area.Attacks...)
	}
	return attacks
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
