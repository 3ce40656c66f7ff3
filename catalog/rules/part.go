package rules

import (
	"context"
	"slices"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings"
)

// Use lists the rules that do not matter to a command. Their faults are only warnings.
type Use []string

var (
	// Serve is for commands that need packages that OLM's tools serve.
	Serve Use = served
	// Look is for commands that need only packages whose documents can be read: people use these commands to look for faults.
	Look Use = []string{fbc.Duplicate.ID, "channel-path", "bundle-dependency", "package-name", "default-channel", "channel-entries", "entry-name", "entry-bundle", "entry-skips",
		"entry-skip-range", "channel-head", "channel-cycle", "bundle-channel", "bundle-version-unique", "bundle-image", "bundle-content",
		"deprecation-reference", "deprecation-unique", "deprecation-message"}
)

// Part is the part of a catalog that a command uses.
type Part struct {
	*fbc.Catalog // without the packages that cannot be used
	// Faults are all errors in the catalog, in the order of files and lines.
	Faults []*findings.Finding
	// Warnings are the faults that do not stop the command. Faults in the packages that it asked for come first.
	Warnings []*findings.Finding
	// LeftOut are the names of packages that cannot be used.
	LeftOut []string
}

// Without returns the catalog without some packages.
func (p *Part) Without(names []string) *fbc.Catalog {
	c := *p.Catalog
	c.Packages = slices.DeleteFunc(slices.Clone(c.Packages), func(p *fbc.Package) bool { return slices.Contains(names, p.Name) })
	return &c
}

// LoadPart reads a catalog for a command that uses the named packages or, without names, all packages that can be used. Faults of other
// packages are warnings. If a named package or the whole catalog cannot be used, the error lists the faults that prevent it.
func LoadPart(ctx context.Context, dir string, use Use, packages ...string) (*Part, error) {
	c, found, err := fbc.Read(ctx, dir)
	if err != nil {
		return nil, err
	}
	unread := len(found) > 0
	all := errorsBut(append(found, Check(c)...), nil)
	findings.Sort(all)
	faults := errorsBut(all, served)
	unusable := map[string]bool{}
	for _, f := range errorsBut(faults, use) {
		unusable[f.Package] = true
	}
	part := &Part{Catalog: c, Faults: all}
	var blocked bool
	for _, p := range c.Packages {
		if p.Incomplete || unusable[p.Name] {
			part.LeftOut = append(part.LeftOut, p.Name)
			blocked = blocked || slices.Contains(packages, p.Name)
		}
	}
	asked := func(f *findings.Finding) bool { return len(packages) == 0 || slices.Contains(packages, f.Package) }
	unknown := func(name string) bool { return c.Find(name) == nil }
	if blocked || len(part.LeftOut) == len(c.Packages) || unread && slices.ContainsFunc(packages, unknown) {
		why := slices.DeleteFunc(slices.Clone(faults), func(f *findings.Finding) bool {
			return f.Package != "" && (!asked(f) || slices.Contains(use, f.Rule))
		})
		if len(why) > 0 { // otherwise, the catalog has no such package
			return nil, joined(why)
		}
	}
	c.Packages = slices.DeleteFunc(c.Packages, func(p *fbc.Package) bool { return p.Incomplete || unusable[p.Name] })
	for _, f := range faults {
		if asked(f) {
			part.Warnings = append(part.Warnings, f)
		}
	}
	for _, f := range faults {
		if !asked(f) {
			part.Warnings = append(part.Warnings, f)
		}
	}
	return part, nil
}
