// Package support shows from when to when the versions of a catalog's packages are supported, by their lifecycles: as a table, JSON
// or a drawing.
package support

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// Schema is the name and version of the JSON of a Document. It changes when a field changes.
const Schema = "berth.catalog-lifecycle.v1"

// Document holds the support of packages.
type Document struct {
	Schema string `json:"schema"`
	// Day is the day for which support is shown.
	Day lifecycle.Date `json:"day"`
	// Packages are the packages with a lifecycle, by name.
	Packages []Package `json:"packages"`
	// Without are the packages without a lifecycle.
	Without []string `json:"without,omitempty"`
}

// Package is a package.
type Package struct {
	Name string `json:"name"`
	// Versions are the minor versions in the lifecycle and of bundles, the latest first.
	Versions []Version `json:"versions"`
}

// Version is a minor version of a package.
type Version struct {
	// Name is MAJOR.MINOR.
	Name string `json:"name"`
	// Latest is the latest bundle of the version, if the catalog has one.
	Latest string `json:"latest,omitempty"`
	// Support says how the version is supported on the day, if the lifecycle has the version.
	Support *lifecycle.Support `json:"support,omitempty"`
	Phases  []lifecycle.Phase  `json:"phases,omitempty"`
	// Platforms are the platforms that the version runs on, if the lifecycle names them.
	Platforms []lifecycle.Platform `json:"platforms,omitempty"`
}

// Of returns the support of packages of a catalog.
func Of(packages []*fbc.Package, day lifecycle.Date) (*Document, error) {
	d := &Document{Schema: Schema, Day: day, Packages: []Package{}}
	for _, p := range packages {
		l, err := p.Lifecycle()
		if err != nil {
			return nil, err
		}
		if l == nil {
			d.Without = append(d.Without, p.Name)
			continue
		}
		d.Packages = append(d.Packages, Package{p.Name, versionsOf(p, l, day)})
	}
	return d, nil
}

// versionsOf returns the minor versions of a package, the latest first.
func versionsOf(p *fbc.Package, l *lifecycle.Lifecycle, day lifecycle.Date) []Version {
	latest := map[string]*fbc.Bundle{}
	for _, b := range p.Bundles {
		if n := b.Number(); n != nil {
			if minor := lifecycle.Minor(*n); latest[minor] == nil || n.GT(*latest[minor].Number()) {
				latest[minor] = b
			}
		}
	}
	var all []Version
	for _, v := range l.Versions {
		if slices.ContainsFunc(all, func(other Version) bool { return other.Name == v.Name }) {
			continue // a duplicate: the first one counts
		}
		of := Version{Name: v.Name, Support: v.At(day), Phases: v.Phases, Platforms: v.Platforms}
		if b := latest[v.Name]; b != nil {
			of.Latest = b.Name
			delete(latest, v.Name)
		}
		all = append(all, of)
	}
	for minor, b := range latest {
		all = append(all, Version{Name: minor, Latest: b.Name})
	}
	slices.SortFunc(all, func(a, b Version) int { return cmp.Or(latestFirst(a.Name, b.Name), strings.Compare(a.Name, b.Name)) })
	return all
}

// latestFirst orders names of minor versions, with invalid ones at the end.
func latestFirst(a, b string) int {
	first, second := lifecycle.Number(a), lifecycle.Number(b)
	switch {
	case first == nil && second == nil:
		return 0
	case first == nil:
		return 1
	case second == nil:
		return -1
	}
	return second.Compare(*first)
}

// Formats are the formats of Write: a table and JSON; and drawings: an image, and a page that loads nothing else.
var Formats = []string{"text", "json", "svg", "html"}

// Write writes the document in one of the Formats.
func (d *Document) Write(w io.Writer, format string) error {
	switch format {
	case "json":
		return escape.JSON(w, d)
	case "svg":
		_, err := io.WriteString(w, d.svg())
		return err
	case "html":
		_, err := io.WriteString(w, d.page())
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "PACKAGE\tVERSION\tLATEST\tSUPPORT\tENDS\tRUNS ON")
	for _, p := range d.Packages {
		for _, v := range p.Versions {
			ends := ""
			if v.Support != nil {
				ends = string(v.Support.Ends)
			}
			cells := []string{p.Name, v.Name, v.Latest, v.Support.String(), ends, runsOn(v.Platforms)}
			for i, cell := range cells {
				cells[i] = cmp.Or(escape.Cell(cell), "-")
			}
			fmt.Fprintln(table, strings.Join(cells, "\t"))
		}
	}
	return table.Flush()
}

// runsOn names platforms and their versions.
func runsOn(platforms []lifecycle.Platform) string {
	var parts []string
	for _, p := range platforms {
		parts = append(parts, p.Name+" "+strings.Join(p.Versions, ", "))
	}
	return strings.Join(parts, "; ")
}
