package failures_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-csi/berth/test/failures"
	"github.com/berth-csi/berth/test/page"
)

var update = flag.Bool("update", false, "write the table into docs/adopt.md")

func TestPageShowsTheTable(t *testing.T) {
	page.Part{
		File: "../../docs/adopt.md", Begin: "<!-- The table is written by go test ./test/failures -update. -->", End: "<!-- end of the table -->",
		Update: "go test ./test/failures -update",
	}.Check(t, "\n"+failures.Markdown()+"\n", *update)
}

// TestEachFailureHasTests: only a run shows that they are tried. Here is what can be known without one.
func TestEachFailureHasTests(t *testing.T) {
	tests := map[int][]string{}
	for _, root := range []string{"../../migrate", "../../operator", "../clusterstorage", "../handover"} {
		for _, text := range texts(t, root) {
			for _, n := range failures.Of(text) {
				tests[n] = append(tests[n], text)
			}
		}
	}
	for i, f := range failures.All {
		if len(tests[i+1]) == 0 {
			t.Errorf("F%d, %s, has no test", i+1, f.Failure)
		}
		if f.Failure == "" || f.Comes == "" || strings.ContainsAny(f.Failure+f.Comes, "|\n") {
			t.Errorf("%+v: want both texts, without characters that break a table cell", f)
		}
		delete(tests, i+1)
	}
	for n, of := range tests {
		t.Errorf("the tests %q are of F%d, which is none of the %d failures", of, n, len(failures.All))
	}
}

// texts returns the texts in tests below a folder, and in what supports them.
func texts(t *testing.T, root string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					found = append(found, text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestOf(t *testing.T) {
	for test, want := range map[string][]int{
		"F5: a Secret": {5},
		"TestAdoption/ebs/F1,_F10:_nothing_is_gone": {1, 10},
		"TestAdoption/ebs":                          nil,
		"F5 without a colon":                        nil,
		"of F5: in the middle":                      nil,
	} {
		if got := failures.Of(test); !slices.Equal(got, want) {
			t.Errorf("%q is of %v, want %v", test, got, want)
		}
	}
}

func TestReport(t *testing.T) {
	outcomes := map[int]failures.Outcome{}
	for i := range failures.All {
		if n := i + 1; n != 4 {
			failures.Add(outcomes, "TestX/F"+strconv.Itoa(n)+":_y", "pass")
		}
	}
	failures.Add(outcomes, "TestX/F2,_F3:_z", "pass")
	failures.Add(outcomes, "TestX/F3:_a", "fail")
	failures.Add(outcomes, "TestX/F4:_a", "skip")
	text, open := failures.Report(outcomes)
	if diff := cmp.Diff([]int{3, 4}, open); diff != "" {
		t.Errorf("not shown (-want +got):\n%s", diff)
	}
	for i, want := range []string{"F1   1 passed ", "F2   2 passed ", "F3   FAILED ", "F4   not tried "} {
		if line := strings.Split(text, "\n")[i]; !strings.HasPrefix(line, "  "+want) {
			t.Errorf("line %d is %q, want %q at its beginning", i, line, want)
		}
	}
	if strings.ContainsAny(text, "`[") {
		t.Errorf("the text has marks of Markdown:\n%s", text)
	}
}
