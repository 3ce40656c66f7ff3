package trials

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEachFailureHasTests: each failure has a test. Only a run shows that it is tried.
func TestEachFailureHasTests(t *testing.T) {
	tests := map[int][]string{}
	for _, root := range []string{"../../migrate", "../../operator", "../clusterstorage", "../handover"} {
		for _, text := range texts(t, root) {
			for _, n := range numbers(text) {
				tests[n] = append(tests[n], text)
			}
		}
	}
	for i, f := range Failures {
		assert.NotEmptyf(t, tests[i+1], "F%d, %s, has no test", i+1, f.Failure)
		if f.Failure == "" || f.Outcome == "" || strings.ContainsAny(f.Failure+f.Outcome, "|\n") {
			t.Errorf("%+v: want both texts, without characters that break a table cell", f)
		}
		delete(tests, i+1)
	}
	for n, of := range tests {
		t.Errorf("the tests %q are of F%d, which is none of the %d failures", of, n, len(Failures))
	}
}

// texts returns the texts in tests below a folder, and in their supporting packages.
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
	require.NoError(t, err)
	return found
}

func TestNumbers(t *testing.T) {
	for test, want := range map[string][]int{
		"F5: a Secret": {5},
		"TestAdoption/ebs/F1,_F10:_nothing_is_gone": {1, 10},
		"TestAdoption/ebs":                          nil,
		"F5 without a colon":                        nil,
		"of F5: in the middle":                      nil,
	} {
		assert.Equalf(t, want, numbers(test), "numbers of %q", test)
	}
}
