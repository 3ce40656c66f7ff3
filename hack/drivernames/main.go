// Command drivernames checks that no code outside of the drivers' folders names a driver: everything about a driver is in its definition.
// Comments, examples in the help of commands, tests and generated files may name drivers. It prints each other place that names a driver,
// and then fails.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/hack/check"
)

// rooms are the folders whose code serves all drivers alike.
var rooms = []string{"operator", "bundle", "catalog", "olm", "migrate", "internal/doctor", "cmd", "deploy/certification"}

// exempt are files about a cloud's service for one driver, with the reason.
var exempt = map[string]string{
	"cmd/berth/grant.go": "SharedVolumes are of EFS file systems",
	"cmd/berth/aws.go":   "only EFS needs something in AWS before its driver can be used, and it deletes what EFS and EBS leave",
}

func main() {
	check.Main("drivernames", checkFiles)
}

func checkFiles() (found []string, err error) {
	globs := []string{}
	for _, room := range rooms {
		globs = append(globs, room+"/*.go")
	}
	names := namesOf(registry.All())
	err = check.EachFile(func(file string, source []byte) error {
		if exempt[file] != "" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		inFile, err := checkFile(file, source, names)
		found = append(found, inFile...)
		return err
	}, globs...)
	return found, err
}

// namesOf returns the words that identify a driver in code.
func namesOf(all []drivers.Driver) []string {
	var names []string
	for _, d := range all {
		names = append(names, d.Name, d.CSIName, d.Package.Name, d.Operator.Name, d.InTree.Source, d.InTree.Plugin, d.InTree.Gate)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// checkFile returns a line for each identifier and each string that has a name as whole words.
func checkFile(file string, source []byte, names []string) ([]string, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(parsed) {
		return nil, nil
	}
	var found []string
	report := func(at token.Pos, text string) {
		for _, name := range names {
			if has(text, name) {
				found = append(found, fmt.Sprintf("%s: %q names a driver: have the driver's definition say it", files.Position(at), name))
			}
		}
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.KeyValueExpr:
			key, ok := n.Key.(*ast.Ident)
			return !ok || key.Name != "Example"
		case *ast.ImportSpec:
			report(n.Pos(), n.Path.Value)
			return false
		case *ast.Ident:
			report(n.Pos(), splitWords(n.Name))
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				report(n.Pos(), text)
			}
		}
		return true
	})
	return found, nil
}

var hump = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// splitWords separates the words of an identifier.
func splitWords(identifier string) string { return hump.ReplaceAllString(identifier, "$1 $2") }

// patterns find names as whole words. Each is compiled once, by has.
var patterns = map[string]*regexp.Regexp{}

// has reports whether a text has a name as whole words.
func has(text, name string) bool {
	pattern := patterns[name]
	if pattern == nil {
		pattern = regexp.MustCompile(`(?i)(^|[^a-z0-9])` + regexp.QuoteMeta(name) + `($|[^a-z0-9])`)
		patterns[name] = pattern
	}
	return pattern.MatchString(text)
}
