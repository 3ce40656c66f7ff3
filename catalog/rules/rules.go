// Package rules checks whether OLM can work with a catalog, and what a catalog changes for clusters that installed from an
// earlier one. Each rule is a row of a table.
//
// It finds everything that "opm validate" finds, in one run. Where the two differ, opm is wrong about OLM;
// docs/reference/catalog-rules.md lists these cases.
package rules

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/olm/upgrade"
)

// rule is a rule for packages.
type rule struct {
	findings.Rule
	// complete says that the rule is about something missing, so it is not applied to packages with documents that could not be read.
	complete bool
	check    func(*subject, report)
}

// report receives a fault of the value at a path of keys and indices, in the document at a span, and returns the finding.
type report func(span document.Span, path []any, format string, args ...any) *findings.Finding

// subject is a package that is being checked.
type subject struct {
	*fbc.Package
	graphs []*upgrade.Graph // one for each channel
}

func newSubject(p *fbc.Package) *subject {
	s := &subject{Package: p}
	for _, c := range p.Channels {
		s.graphs = append(s.graphs, upgrade.Of(p, c))
	}
	return s
}

// tables are the rules that Check applies, in the order of reports.
var tables = [][]rule{packageRules, channelRules, bundleRules, deprecationRules}

// Rules are the rules of Check and of fbc.Read.
var Rules = ofGates(slices.Concat(document.Rules, fbc.Rules, rulesOf(slices.Concat(tables...)), lifecycleRules))

func rulesOf(rows []rule) []findings.Rule {
	var all []findings.Rule
	for _, row := range rows {
		all = append(all, row.Rule)
	}
	return all
}

// Check checks the packages of a catalog. The findings are in the order of files and lines.
func Check(c *fbc.Catalog) []*findings.Finding {
	found := append(CheckAt(c, fbc.Fault), checkLifecycles(c)...)
	findings.Sort(found)
	return found
}

// Place makes a finding from a fault of the value at a path of keys and indices, in the document at a span. It must be safe
// for concurrent use.
type Place func(rule findings.Rule, span document.Span, path []any, format string, args ...any) *findings.Finding

// CheckAt is like Check, but does not check lifecycles, and is for a catalog that was built from other files: place reports faults in them.
func CheckAt(c *fbc.Catalog, place Place) []*findings.Finding {
	return eachPackage(c, func(p *fbc.Package) []*findings.Finding { return checkPackage(p, place) })
}

// eachPackage checks the packages of a catalog, on all processors. The findings are in the order of files and lines.
func eachPackage(c *fbc.Catalog, check func(*fbc.Package) []*findings.Finding) []*findings.Finding {
	found := make([][]*findings.Finding, len(c.Packages))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range c.Packages {
		group.Go(func() error {
			found[i] = check(p)
			return nil
		})
	}
	_ = group.Wait() // no error: faults are reported
	all := slices.Concat(found...)
	findings.Sort(all)
	return all
}

func checkPackage(p *fbc.Package, place Place) (found []*findings.Finding) {
	s := newSubject(p)
	for _, table := range tables {
		for _, row := range table {
			if row.complete && p.Incomplete {
				continue
			}
			row.check(s, reportOf(row.Rule, p.Name, place, &found))
		}
	}
	return found
}

// reportOf returns a report that adds the faults of a package to found.
func reportOf(rule findings.Rule, pkg string, place Place, found *[]*findings.Finding) report {
	return func(span document.Span, path []any, format string, args ...any) *findings.Finding {
		f := place(rule, span, path, format, args...).In(pkg)
		*found = append(*found, f)
		return f
	}
}

// correct sets the edit that corrects a finding, if the finding is in the file of the document at span.
func correct(f *findings.Finding, span document.Span, edit func(document.Document) []findings.Edit) {
	if f.File != span.File {
		return // the catalog was built from other files
	}
	if d, err := document.Load(span); err == nil {
		f.Fixed(slices.Concat(f.Fix, edit(d)))
	}
}

// served are rules that a served catalog may break: OLM's tools also serve it, and most clusters can use it.
var served = []string{"channel-path", "bundle-dependency", "bundle-csv"}

// Load reads a catalog that must be valid for serving to OLM. Otherwise, the error lists everything that makes it invalid.
func Load(ctx context.Context, dir string) (*fbc.Catalog, error) {
	return LoadAndKeep(ctx, dir, func(document.Document) error { return nil })
}

// LoadAndKeep is like Load, and passes each document to keep, like fbc.ReadAndKeep.
func LoadAndKeep(ctx context.Context, dir string, keep func(document.Document) error) (*fbc.Catalog, error) {
	c, found, err := fbc.ReadAndKeep(ctx, dir, keep)
	if err != nil {
		return nil, err
	}
	found = append(found, Check(c)...)
	findings.Sort(found)
	return c, joined(errorsBut(found, served))
}

// errorsBut returns the errors among findings, without the errors of some rules.
func errorsBut(found []*findings.Finding, without []string) (faults []*findings.Finding) {
	for _, f := range found {
		if f.Severity == findings.Error && !slices.Contains(without, f.Rule) {
			faults = append(faults, f)
		}
	}
	return faults
}

func joined(found []*findings.Finding) error {
	var faults []error
	for _, f := range found {
		faults = append(faults, f)
	}
	return errors.Join(faults...)
}
