package repository

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	bundlerules "github.com/berth-csi/berth/bundle/rules"
	"github.com/berth-csi/berth/catalog/fbc"
	catalogrules "github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/gates"
)

// Selection says which parts of a repository to check.
type Selection struct {
	// Bundles are the folders of bundles by operator. An operator without bundles gets the checks that are not about
	// bundles.
	Bundles map[string][]string
	// Packages are packages in catalogs.
	Packages []Place
}

// All selects everything.
func (r *Repository) All() Selection {
	s := Selection{Bundles: map[string][]string{}}
	for _, name := range r.Operators() {
		s.Bundles[name] = r.bundleNames(name)
	}
	for _, catalog := range r.Catalogs() {
		for _, name := range r.packages(catalog) {
			s.Packages = append(s.Packages, Place{catalog, name})
		}
	}
	return s
}

// Selection selects the added and modified parts of a change.
func (r *Repository) Selection(c Change) Selection {
	s := Selection{Bundles: map[string][]string{}, Packages: c.Packages}
	for _, name := range c.Operators {
		if r.hasOperator(name) {
			s.Bundles[name] = nil
		}
	}
	for _, p := range slices.Concat(c.Added, c.Modified) {
		s.Bundles[p.Above] = append(s.Bundles[p.Above], p.Name)
	}
	return s
}

// Only returns the selection restricted to operators and packages with these names, if any are given.
func (s Selection) Only(names []string) Selection {
	if len(names) == 0 {
		return s
	}
	named := map[string]bool{}
	for _, name := range names {
		named[name] = true
	}
	left := Selection{Bundles: map[string][]string{}}
	for name, folders := range s.Bundles {
		if named[name] {
			left.Bundles[name] = folders
		}
	}
	for _, p := range s.Packages {
		if named[p.Name] {
			left.Packages = append(left.Packages, p)
		}
	}
	return left
}

// Count returns the numbers of operators, bundles and packages in catalogs.
func (s Selection) Count() (operators, bundles, packages int) {
	for _, folders := range s.Bundles {
		bundles += len(folders)
	}
	return len(s.Bundles), bundles, len(s.Packages)
}

// Options are the options of Check.
type Options struct {
	Profile gates.Profile
	// Kept caches results about bundles. It may be nil.
	Kept *Kept
	// Progress is called, concurrently, after each checked bundle.
	Progress func(checked, all int)
}

// Check checks the selected parts. The findings are in the order of files and lines.
func (r *Repository) Check(ctx context.Context, s Selection, o Options) ([]*findings.Finding, error) {
	c := &checker{Repository: r, options: o, selection: s}
	if err := c.operators(ctx); err != nil {
		return nil, err
	}
	if err := c.bundles(ctx); err != nil {
		return nil, err
	}
	if err := c.packages(ctx); err != nil {
		return nil, err
	}
	found := slices.Concat(c.found...)
	found = slices.DeleteFunc(found, c.isWaived)
	findings.Sort(found)
	return found, nil
}

// CheckChange checks a change as a whole, if a gate of the profile asks for that.
func (r *Repository) CheckChange(c Change, profile gates.Profile) []*findings.Finding {
	if !profile.Enforces(changeRule) {
		return nil
	}
	return r.checkShape(c)
}

// checker is a repository that is being checked.
type checker struct {
	*Repository
	options   Options
	selection Selection
	read      []*operator
	found     [][]*findings.Finding
}

// names returns the names of the selected operators, sorted.
func (s Selection) names() (all []string) {
	for name := range s.Bundles {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// parallel calls do for each number below n, on all processors.
func parallel(ctx context.Context, n int, do func(i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return do(i)
		})
	}
	return group.Wait()
}

// operators reads the selected operators, and checks each with all of its bundles.
func (c *checker) operators(ctx context.Context) error {
	names := c.selection.names()
	c.read = make([]*operator, len(names))
	found := make([][]*findings.Finding, len(names))
	err := parallel(ctx, len(names), func(i int) error {
		c.read[i] = c.operator(names[i], c.options.Kept.facts)
		found[i] = c.checkOperator(c.read[i], c.selection.Bundles[names[i]])
		return nil
	})
	c.found = append(c.found, found...)
	return err
}

// checkOperator applies the rules for an operator, and the rules for some of its bundles.
func (c *checker) checkOperator(o *operator, folders []string) (found []*findings.Finding) {
	for _, row := range table {
		if !c.options.Profile.Enforces(row.Rule) || row.withoutCatalogs && o.inCatalogs() {
			continue
		}
		s := &subject{c.Repository, o, row.Rule}
		if !row.byBundle {
			found = append(found, row.find(s, nil)...)
			continue
		}
		for _, folder := range folders {
			if b := o.find(folder); b != nil {
				found = append(found, row.find(s, b)...)
			}
		}
	}
	return found
}

// bundles checks each selected bundle by itself.
func (c *checker) bundles(ctx context.Context) error {
	type task struct {
		of     *operator
		folder string
	}
	var tasks []task
	for _, o := range c.read {
		for _, folder := range c.selection.Bundles[o.name] {
			tasks = append(tasks, task{o, folder})
		}
	}
	found := make([][]*findings.Finding, len(tasks))
	var checked counter
	err := parallel(ctx, len(tasks), func(i int) error {
		t := tasks[i]
		dir := c.path(OperatorsDir, t.of.name, t.folder)
		o := bundlerules.Options{Profile: c.options.Profile, InCatalogs: t.of.inCatalogs()}
		all, err := c.options.Kept.findings(dir, o)
		if err != nil { // err says why the folder is not a bundle
			all = []*findings.Finding{table[0].Rule.Finding(dir, "%v", err)}
		}
		for _, f := range all {
			f.Package = t.of.name
		}
		found[i] = all
		if c.options.Progress != nil {
			c.options.Progress(checked.add(), len(tasks))
		}
		return nil
	})
	c.found = append(c.found, found...)
	return err
}

// packages checks the selected packages, each as a catalog of its own.
func (c *checker) packages(ctx context.Context) error {
	found := make([][]*findings.Finding, len(c.selection.Packages))
	err := parallel(ctx, len(found), func(i int) (err error) {
		found[i], err = c.checkPackage(ctx, c.selection.Packages[i])
		return err
	})
	c.found = append(c.found, found...)
	return err
}

func (c *checker) checkPackage(ctx context.Context, p Place) ([]*findings.Finding, error) {
	dir := c.path(CatalogsDir, p.Above, p.Name)
	catalog, found, err := fbc.Read(ctx, dir)
	if cmp.Or(err, ctx.Err()) != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if f := (*findings.Finding)(nil); errors.As(err, &f) {
			return []*findings.Finding{f}, nil
		}
		return nil, err
	}
	catalog.Dir = c.path(CatalogsDir, p.Above)
	found = append(found, catalogrules.Check(catalog)...)
	catalogrules.Raise(found, c.options.Profile)
	found = append(found, catalogrules.CheckGates(catalog, catalogrules.Options{Profile: c.options.Profile, Registries: c.Config.Registries})...)
	return found, nil
}

// isWaived reports whether the repository's configuration waives the check behind a finding for the operator.
func (c *checker) isWaived(f *findings.Finding) bool {
	checks := byOtherRules[f.Rule]
	for _, row := range table {
		if row.ID == f.Rule {
			checks = row.checks
		}
	}
	name := cmp.Or(f.Package, c.operatorOf(f.File))
	return slices.ContainsFunc(checks, func(check string) bool { return c.Config.waives(check, name) })
}

// operatorOf returns the operator or the package that a file belongs to.
func (c *checker) operatorOf(file string) string {
	below, err := filepath.Rel(c.Dir, file)
	parts := strings.Split(filepath.ToSlash(below), "/")
	switch {
	case err == nil && len(parts) > 1 && parts[0] == OperatorsDir:
		return parts[1]
	case err == nil && len(parts) > 2 && parts[0] == CatalogsDir:
		return parts[2]
	}
	return ""
}
