package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/diff"
	"github.com/berth-csi/berth/catalog/list"
	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/support"
	"github.com/berth-csi/berth/cmd/internal/version"
	"github.com/berth-csi/berth/internal/aws/provision"
	"github.com/berth-csi/berth/internal/aws/removal"
	"github.com/berth-csi/berth/internal/doctor"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
	"github.com/berth-csi/berth/migrate/csimigration"
	"github.com/berth-csi/berth/migrate/move"
	"github.com/berth-csi/berth/migrate/subscription"
	"github.com/berth-csi/berth/olm/prediction"
)

// module is the path of this module, which is in root.
const (
	module = "github.com/berth-csi/berth/"
	root   = "../.."
)

// document is a JSON document that commands write.
type document struct {
	schema   string
	commands []string
	parts    []part
}

// documents are all documents that commands write. All have a schema.
var documents = []document{
	{findings.Schema, []string{"catalog validate", "bundle validate", "check"}, []part{{"", findings.Document{}}}},
	{findings.RulesSchema, []string{"catalog validate --rules", "bundle validate --rules", "check --rules", "catalog rules"}, []part{{"", findings.RulesDocument{}}}},
	{list.Schema, []string{"catalog list"}, []part{{"", list.Document{}}, {"of packages: items[].", list.Package{}}, {"of channels: items[].", list.Channel{}}, {"of bundles: items[].", list.Bundle{}}}},
	{diff.Schema, []string{"catalog diff"}, []part{{"", diff.Diff{}}}},
	{support.Schema, []string{"catalog lifecycle"}, []part{{"", support.Document{}}}},
	{permissionsSchema, []string{"bundle permissions"}, []part{{"", permissionsDocument{}}}},
	{mirror.Schema, []string{"catalog mirror"}, []part{{"", mirror.Document{}}}},
	{prediction.Schema, []string{"catalog plan"}, []part{{"", prediction.Document{}}}},
	{subscription.Switch.Schema, []string{"switch plan"}, []part{{"", subscription.Plan{}}}},
	{subscription.Switch.StatusSchema, []string{"switch status"}, []part{{"", migrate.Status[*subscription.Plan]{}}}},
	{adoption.Adopt.Schema, []string{"adopt plan"}, []part{{"", adoption.Plan{}}}},
	{adoption.Adopt.StatusSchema, []string{"adopt status"}, []part{{"", migrate.Status[*adoption.Plan]{}}}},
	{move.Move.Schema, []string{"move plan"}, []part{{"", move.Plan{}}}},
	{move.Move.StatusSchema, []string{"move status PACKAGE"}, []part{{"", migrate.Status[*move.Plan]{}}}},
	{move.OverviewSchema, []string{"move status"}, []part{{"", move.Overview{}}}},
	{adoption.CleanupSchema, []string{"adopt cleanup"}, []part{{"", adoption.Cleanup{}}}},
	{csimigration.Switch.Schema, []string{"csi-migration plan"}, []part{{"", csimigration.Plan{}}}},
	{doctor.Schema, []string{"doctor"}, []part{{"", doctor.Report{}}}},
	{provision.Schema, []string{"aws create"}, []part{{"", provision.Report{}}}},
	{removal.Schema, []string{"aws destroy"}, []part{{"", removal.Report{}}}},
	{version.Schema, []string{"version"}, []part{{"", version.Info{}}}},
	{csimigration.OverviewSchema, []string{"csi-migration status"}, []part{{"", csimigration.Overview{}}}},
}

// part is a type in a document, with the prefix of its fields.
type part struct {
	before string
	of     any
}

// values are the values of fields that programs compare: constants in the code.
var values = []struct {
	title string
	from  []constants
}{
	{"What `berth catalog plan` predicts: `verdict`", []constants{{"olm/prediction", "Reaction", ""}}},
	{"Why, what blocks OLM, and risks: `code` in `why`, `blockers` and `risks`", []constants{{"olm/prediction", "Code", ""}}},
	{"Upgrade edges: `edge`", []constants{{"olm/upgrade", "Edge", ""}}},
	{"How a version is supported: `state` in `support`", []constants{{"catalog/fbc/lifecycle", "State", ""}}},
	{"Changes of `berth catalog diff`: `kind`", []constants{{"catalog/diff", "Kind", ""}}},
	{"Checks of plans and results of `berth doctor`: `verdict`; findings: `severity`", []constants{{"internal/findings", "Verdict", ""}}},
	{"Checks of `berth switch`: `code`, besides those of predictions", []constants{{"migrate/subscription", "", "The codes of"}}},
	{"Checks of `berth adopt`: `code`", []constants{{"migrate/adoption", "", "The codes of"}}},
	{"Checks of `berth move`: `code`, besides those of predictions", []constants{{"migrate/move", "", "The codes of"}}},
	{"Results of `berth doctor`: `code`", []constants{{"internal/doctor", "", "The codes of"}}},
	{"Resources of `berth aws`: `kind`", []constants{{"internal/aws/removal", "Kind", ""}}},
	{"How `berth switch` changes the version: `strategy`", []constants{{"migrate/subscription", "Strategy", ""}}},
	{"How far a migration is: `phase`", []constants{{"migrate", "Phase", ""}}},
	{"Steps of `berth switch`: `name` in `steps`, and `next`", []constants{{"migrate", "StepName", ""}, {"migrate/subscription", "StepName", ""}}},
	{"Steps of `berth adopt`: `name` in `steps`, and `next`", []constants{{"migrate", "StepName", ""}, {"migrate/adoption", "StepName", ""}}},
	{"Where `berth move` moves an operator to: `to`", []constants{{"migrate/move", "Target", ""}}},
	{"Steps of `berth move`: `name` in `steps`, and `next`", []constants{{"migrate", "StepName", ""}, {"migrate/move", "StepName", ""}}},
	{"Ways of `berth csi-migration`: `way`", []constants{{"migrate/csimigration", "Way", ""}}},
	{"Steps of `berth csi-migration`: `name` in `steps`, and `next`", []constants{{"migrate", "StepName", ""}, {"migrate/csimigration", "StepName", ""}}},
}

// constants are the constants of a type in a package or, without a type, of the group whose comment begins with a text.
type constants struct{ dir, of, group string }

// TestJSONPage compares docs/reference/json.md with the code. -update writes the page.
func TestJSONPage(t *testing.T) {
	var page strings.Builder
	page.WriteString("<!-- Generated by `go test ./cmd/berth -run TestJSONPage -update`. DO NOT EDIT. -->\n# JSON\n\n" +
		"Each document that a command writes with `-o json` has a `schema`, with a version that changes when a field is removed or gets\n" +
		"another meaning. Fields may be added. Fields that are empty may be missing. Texts may change; codes do not.\n\n" +
		"Each has a [JSON Schema](https://json-schema.org), and the tests of this project validate such documents against it. A program that validates\n" +
		"documents must accept fields that the JSON Schema does not have.\n\n| document | command | JSON Schema |\n| --- | --- | --- |\n")
	for _, d := range documents {
		fmt.Fprintf(&page, "| [`%[1]s`](#%[2]s) | `berth %[3]s` | [%[1]s.json](../schemas/%[1]s.json) |\n", d.schema, strings.ReplaceAll(d.schema, ".", ""), strings.Join(d.commands, "`, `berth "))
	}
	page.WriteString("\nThe formats of catalogs, from `berth catalog render`, and of templates, from `berth catalog convert-template`, are defined elsewhere, and so are `sarif` and `junit`.\n")
	s := &sourceCode{packages: map[string][]*ast.File{}}
	for _, d := range documents {
		fmt.Fprintf(&page, "\n## %s\n\n| field | type | meaning |\n| --- | --- | --- |\n", d.schema)
		for _, p := range d.parts {
			for _, f := range s.fields(t, p.before, reflect.TypeOf(p.of), nil) {
				fmt.Fprintf(&page, "| `%s` | %s | %s |\n", f.path, f.kind, f.meaning)
			}
		}
	}
	page.WriteString("\n## Values\n")
	for _, v := range values {
		fmt.Fprintf(&page, "\n### %s\n\n| value | meaning |\n| --- | --- |\n", v.title)
		for _, of := range v.from {
			found := s.values(t, of)
			assert.NotEmptyf(t, found, "there is no constant of %+v", of)
			for _, c := range found {
				if c.meaning == "" && of.dir != "olm/upgrade" && of.dir != "catalog/diff" { // the words say it
					t.Errorf("constant %s in %s has no comment, which would be its meaning", c.path, of.dir)
				}
				fmt.Fprintf(&page, "| `%s` | %s |\n", c.path, c.meaning)
			}
		}
	}
	page.WriteString("\n### Rules: `rule` of findings\n\nThe rules are on pages of their own: [for catalogs](catalog-rules.md), and [for bundles](bundle-rules.md) and repositories.\n")
	comparePage(t, root+"/docs/reference/json.md", page.String())
}

// TestJSONOfEachCommand: each command that writes JSON is on the page.
func TestJSONOfEachCommand(t *testing.T) {
	var listed []string
	for _, d := range documents {
		for _, c := range d.commands {
			listed = append(listed, "berth "+strings.TrimSuffix(c, " --rules"))
		}
	}
	for _, cmd := range leaves(newCommand()) {
		output := cmd.Flags().Lookup("output")
		writesJSON := output != nil && output.Shorthand == "o" && strings.Contains(output.Usage, "json")
		elsewhere := []string{"berth catalog render", "berth catalog convert-template"}
		if want := writesJSON && !slices.Contains(elsewhere, cmd.CommandPath()); want != slices.Contains(listed, cmd.CommandPath()) {
			t.Errorf("%s writes a document of its own: %t; documents lists it: %t", cmd.CommandPath(), want, !want)
		}
	}
}

// described is a field or a value, and its meaning.
type described struct{ path, kind, meaning string }

// sourceCode is the source code of this module, by folder.
type sourceCode struct{ packages map[string][]*ast.File }

// files returns the files of a package.
func (s *sourceCode) files(t *testing.T, dir string) []*ast.File {
	t.Helper()
	if s.packages[dir] == nil {
		names, err := fs.Glob(os.DirFS(filepath.Join(root, dir)), "*.go")
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, dir, name), nil, parser.ParseComments)
			require.NoError(t, err)
			s.packages[dir] = append(s.packages[dir], file)
		}
	}
	return s.packages[dir]
}

// groups yields the declarations of a kind in a package.
func (s *sourceCode) groups(t *testing.T, dir string, kind token.Token) (all []*ast.GenDecl) {
	t.Helper()
	for _, file := range s.files(t, dir) {
		for _, d := range file.Decls {
			if group, is := d.(*ast.GenDecl); is && group.Tok == kind {
				all = append(all, group)
			}
		}
	}
	return all
}

// values returns constants in the order of the code.
func (s *sourceCode) values(t *testing.T, of constants) (all []described) {
	t.Helper()
	for _, group := range s.groups(t, of.dir, token.CONST) {
		for _, spec := range group.Specs {
			c := spec.(*ast.ValueSpec)
			switch {
			case of.of != "" && lastName(c.Type) != of.of:
				continue
			case of.of == "" && (c.Type != nil || !strings.HasPrefix(group.Doc.Text(), of.group)):
				continue
			}
			literal, is := c.Values[0].(*ast.BasicLit)
			if !is {
				t.Fatalf("constant %s in %s is not a literal", c.Names[0], of.dir)
			}
			value, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			meaning := c.Doc.Text() + c.Comment.Text()
			for _, before := range []string{": ", " means that ", " means "} {
				meaning = strings.TrimPrefix(meaning, c.Names[0].Name+before)
			}
			all = append(all, described{path: value, meaning: oneLine(meaning)})
		}
	}
	return all
}

// lastName returns the name of a type, without its package.
func lastName(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.SelectorExpr:
		return of.Sel.Name
	}
	return ""
}

// fields returns the fields of a type as JSON has them. within are the types that contain it, so that a type that contains itself ends.
func (s *sourceCode) fields(t *testing.T, before string, of reflect.Type, within []reflect.Type) (all []described) {
	t.Helper()
	within = append(slices.Clone(within), of)
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			all = append(all, s.fields(t, before, f.Type, within)...)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			t.Errorf("field %s of %s has no name in JSON", f.Name, of)
		}
		kind, suffix, inner := shape(f.Type)
		meaning := oneLine(s.comment(t, of, f.Name))
		all = append(all, described{before + name, kind, meaning})
		if inner != nil && strings.HasPrefix(inner.PkgPath()+"/", module) && !slices.Contains(within, inner) && !isDocument(inner) {
			all = append(all, s.fields(t, before+name+suffix+".", inner, within)...)
		}
	}
	return all
}

// isDocument reports whether a type is a document, which has its own table.
func isDocument(of reflect.Type) bool {
	for _, d := range documents {
		if reflect.TypeOf(d.parts[0].of) == of {
			return true
		}
	}
	return false
}

// shape returns the JSON kind of a type, the suffix of a field's name for its elements, and the structure of the elements, or
// nil.
func shape(of reflect.Type) (kind, suffix string, inner reflect.Type) {
	switch of.Kind() {
	case reflect.Pointer:
		return shape(of.Elem())
	case reflect.Slice:
		kind, suffix, inner = shape(of.Elem())
		return "list of " + kind, "[]" + suffix, inner
	case reflect.Map:
		kind, suffix, inner = shape(of.Elem())
		return "map of " + kind, ".*" + suffix, inner
	case reflect.Struct:
		return "object", "", of
	case reflect.Bool:
		return "boolean", "", nil
	case reflect.String:
		return "string", "", nil
	case reflect.Interface:
		return "list of object", "", nil
	}
	return "number", "", nil
}

// comment returns the comment of a field.
func (s *sourceCode) comment(t *testing.T, of reflect.Type, field string) string {
	t.Helper()
	name, _, _ := strings.Cut(of.Name(), "[") // without type arguments
	for _, group := range s.groups(t, strings.TrimPrefix(of.PkgPath(), module), token.TYPE) {
		for _, spec := range group.Specs {
			declared := spec.(*ast.TypeSpec)
			structure, is := declared.Type.(*ast.StructType)
			if !is || declared.Name.Name != name {
				continue
			}
			for _, f := range structure.Fields.List {
				if slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.Name == field }) {
					return f.Doc.Text() + f.Comment.Text()
				}
			}
		}
	}
	t.Errorf("%s has no field %s in its source", of, field)
	return ""
}

// oneLine returns a comment for a cell of a table.
func oneLine(comment string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(comment), " "), "|", `\|`)
}
