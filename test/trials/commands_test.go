package trials

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unshipped are folders with programs that do not run in clusters.
var unshipped = []string{"test", "lab", "hack", "deploy/certification", "efs-utils-base", "release", "bin", "docs"}

// commandLine is the beginning of a command that a message makes its readers run.
var commandLine = regexp.MustCompile("(?:^|[`(:;|] ?|run |Run |with )(oc|kubectl|berth) (-[a-z-]+ |[a-z]+ ?)")

// TestCommandsAreQuoted reads the source of everything that is shipped: input gets into a command in a message only by
// escape.Command, which quotes it for a shell. So no input field, and no place that shows it, is forgotten.
func TestCommandsAreQuoted(t *testing.T) {
	files := token.NewFileSet()
	commands := 0
	require.NoError(t, fs.WalkDir(os.DirFS("../.."), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains(unshipped, path) || path != "." && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(files, filepath.Join("..", "..", path), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		found, bad := unquoted(parsed)
		commands += found
		for _, node := range bad {
			t.Errorf("%s: a command with text that was read from somewhere; build it with escape.Command", files.Position(node.Pos()))
		}
		return nil
	}))
	assert.GreaterOrEqual(t, commands, 30, "commands in messages: does commandLine still match them?")
}

// unquoted counts the commands in texts, and returns the texts that put something else into one.
func unquoted(file *ast.File) (commands int, bad []ast.Node) {
	quoted := map[ast.Node]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Command" && len(n.Args) > 0 {
				if pkg, ok := f.X.(*ast.Ident); ok && pkg.Name == "escape" {
					commands++
					quoted[n.Args[0]] = true
				}
			}
		case *ast.BinaryExpr:
			if n.Op != token.ADD || quoted[n] {
				return true
			}
			parts := operands(n, quoted)
			text, dynamic := "", false
			for _, part := range parts {
				if literal, ok := part.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					quoted[literal] = true // it is looked at here
					value, _ := strconv.Unquote(literal.Value)
					text += value
				} else if commandIn(text) {
					dynamic = true
				} else {
					text += "\x00"
				}
			}
			if commandLine.MatchString(text) {
				commands++
				if dynamic || hasVerb(text) {
					bad = append(bad, n)
				}
			}
		case *ast.BasicLit:
			if n.Kind != token.STRING || quoted[n] {
				return true
			}
			if text, _ := strconv.Unquote(n.Value); commandLine.MatchString(text) {
				commands++
				if hasVerb(text) {
					bad = append(bad, n)
				}
			}
		}
		return true
	})
	return commands, bad
}

// commandIn reports whether a text ends within a command: nothing has ended it.
func commandIn(text string) bool {
	at := commandLine.FindAllStringIndex(text, -1)
	return at != nil && !strings.ContainsAny(text[at[len(at)-1][1]:], "`,.;)")
}

// hasVerb reports whether a command in a text has a verb of package fmt.
func hasVerb(text string) bool {
	for _, at := range commandLine.FindAllStringIndex(text, -1) {
		command := text[at[0]+1:]
		if end := strings.IndexAny(command, "`;"); end >= 0 {
			command = command[:end]
		}
		if end := strings.Index(command, ". "); end >= 0 {
			command = command[:end]
		}
		if regexp.MustCompile(`%(\[\d\])?[sqv]`).MatchString(command) {
			return true
		}
	}
	return false
}

// operands returns the operands of a concatenation, and marks the concatenations in it as seen.
func operands(e ast.Expr, seen map[ast.Node]bool) []ast.Expr {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		seen[sum] = true
		return slices.Concat(operands(sum.X, seen), operands(sum.Y, seen))
	}
	return []ast.Expr{e}
}

// TestUnquotedIsFound has the check find each way of putting text into a command.
func TestUnquotedIsFound(t *testing.T) {
	for source, want := range map[string]int{
		`fmt.Sprintf("run oc delete pod %s", name)`:              1,
		"fmt.Sprintf(\"see why with `oc describe x %s`\", name)": 1,
		`"oc describe clustercsidriver " + name`:                 1,
		`"do: oc label namespace " + name + " a=b"`:              1,
		`escape.Command("oc delete pod %s", name)`:               0,
		`"run " + escape.Command("oc delete pod %s", name)`:      0,
		"fmt.Sprintf(\"`oc get pods` shows %s\", name)":          0,
		`"the name is " + name + ": oc get pods"`:                0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nvar _ = "+source, parser.SkipObjectResolution)
		require.NoError(t, err)
		_, bad := unquoted(file)
		assert.Len(t, bad, want, source)
	}
}
