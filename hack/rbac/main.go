// Command rbac explains the permissions of the operators, from the rules in the drivers' definitions and the
// records of end-to-end runs: as a table or, with -output, as a page of the documentation. It fails if rules,
// reasons and records contradict each other, and names each contradiction.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"
	"text/template"

	_ "embed"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/drivers/registry"
)

func main() {
	folder := flag.String("drivers", "drivers", "the `folder` that holds a folder for each driver")
	output := flag.String("output", "", "the `file` to write the page to")
	flag.Parse()
	if err := run(os.Stdout, *folder, *output); err != nil {
		fmt.Fprintf(os.Stderr, "rbac: %v\n", err)
		os.Exit(1)
	}
}

func run(out io.Writer, folder, output string) error {
	var operators []operator
	var errs []error
	for _, d := range registry.Packaged() {
		o, err := explain(d, folder)
		operators, errs = append(operators, o), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if output == "" {
		return table(out, operators)
	}
	text, err := page(operators)
	if err != nil {
		return err
	}
	return os.WriteFile(output, text, 0o644)
}

// operator is an operator with its permissions.
type operator struct {
	Name     string
	Count    permissions.Count
	Purposes []purpose
}

// purpose is a group of permissions that serve the same purpose.
type purpose struct {
	For  string
	Rows []permissions.Row
}

// explain returns the permissions of a driver's operator. It fails if they contradict the record of an
// end-to-end run.
func explain(d drivers.Driver, folder string) (operator, error) {
	rules, err := d.OperatorRules(permissions.Removable)
	if err != nil {
		return operator{}, err
	}
	file := filepath.Join(folder, d.Name, permissions.RecordName)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return operator{}, fmt.Errorf("%w: record an end-to-end run with: go test ./test/e2e -run TestPermissionsAreExact/%s -update", err, d.Name)
	}
	if err != nil {
		return operator{}, err
	}
	used, err := permissions.Parse(string(text))
	if err != nil {
		return operator{}, fmt.Errorf("%s: %w", file, err)
	}
	var errs []error
	for _, problem := range permissions.Check(rules, used) {
		errs = append(errs, fmt.Errorf("%s: %s", d.Operator.Name, problem))
	}
	o := operator{Name: d.Operator.Name, Count: permissions.CountOf(rules)}
	for _, row := range permissions.Table(rules) {
		if last := len(o.Purposes) - 1; last < 0 || o.Purposes[last].For != row.For {
			o.Purposes = append(o.Purposes, purpose{For: row.For})
		}
		last := &o.Purposes[len(o.Purposes)-1]
		last.Rows = append(last.Rows, row)
	}
	return o, errors.Join(errs...)
}

// usage says whether the end-to-end run used permissions, or why it did not.
func usage(row permissions.Row) string {
	switch {
	case row.Delegated:
		return "not used: only to delegate it"
	case row.Unexercised != "":
		return "not used: " + row.Unexercised
	}
	return "used"
}

// table writes the permissions as text for a terminal.
func table(out io.Writer, operators []operator) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, o := range operators {
		fmt.Fprintf(w, "%s\n", o.Name)
		for _, p := range o.Purposes {
			fmt.Fprintf(w, "\n%s\n", p.For)
			for _, row := range p.Rows {
				fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", row.Where, row.Object, row.Verbs, usage(row))
			}
		}
	}
	return w.Flush()
}

//go:embed page.md
var pageText string

var pageTemplate = template.Must(template.New("").Funcs(template.FuncMap{"usage": usage}).Parse(pageText))

func page(operators []operator) ([]byte, error) {
	var text bytes.Buffer
	err := pageTemplate.Execute(&text, operators)
	return text.Bytes(), err
}
