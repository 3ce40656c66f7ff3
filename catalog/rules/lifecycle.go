package rules

import (
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/openshift"
)

// The rules for lifecycles and their packages.
var (
	lifecyclePackage = findings.Rule{ID: "lifecycle-package", Severity: findings.Warning,
		What: "A lifecycle belongs to a package of the catalog, and each package has at most one.",
		Why:  "OpenShift's console shows that the support of a package with several lifecycles is not known, and never shows a lifecycle whose package is not in the catalog."}
	lifecycleBundle = findings.Rule{ID: "lifecycle-bundle", Severity: findings.Warning,
		What: "The versions of a lifecycle are versions of the package or older ones, and the heads of its channels are among them.",
		Why:  "OpenShift's console shows that the support of a version is not known if the lifecycle lacks the version."}
	lifecyclePlatform = findings.Rule{ID: "lifecycle-platform", Severity: findings.Warning,
		What: "The versions of OpenShift in a lifecycle are known ones.",
		Why:  "OpenShift's console shows that the operator is not compatible with the cluster."}
)

// lifecycleRules are the rules about lifecycles.
var lifecycleRules = slices.Concat(lifecycle.Rules, []findings.Rule{lifecyclePackage, lifecycleBundle, lifecyclePlatform})

// checkLifecycles checks the lifecycles of a catalog.
func checkLifecycles(c *fbc.Catalog) (found []*findings.Finding) {
	for _, o := range c.Others {
		if o.Schema != lifecycle.Schema {
			continue
		}
		d, err := document.Load(o.Span)
		if err != nil {
			continue // the document is gone; a change of the catalog is reported elsewhere
		}
		l, faults := lifecycle.Read(d)
		check := lifecycleCheck{document: d, at: d.Positions(), found: faults}
		check.belongs(o, c.Find(o.Package))
		if p := c.Find(o.Package); l != nil && p != nil {
			check.bundles(l, p)
		}
		if l != nil {
			check.platforms(l)
		}
		for _, f := range check.found {
			found = append(found, f.In(o.Package))
		}
	}
	return found
}

// lifecycleCheck compares a lifecycle with its package.
type lifecycleCheck struct {
	document document.Document
	at       func(path []any) (line, column int)
	found    []*findings.Finding
}

func (c *lifecycleCheck) report(rule findings.Rule, path []any, format string, args ...any) {
	if len(c.found) < document.MaxFaults {
		c.found = append(c.found, rule.Finding(c.document.File, format, args...).At(c.at(path)))
	}
}

func (c *lifecycleCheck) belongs(o *fbc.Other, p *fbc.Package) {
	switch {
	case o.Package == "": // a field that is missing is reported as such
	case p == nil || !p.Declared:
		c.report(lifecyclePackage, []any{"package"}, "the lifecycle belongs to package %q, which the catalog does not have", o.Package)
	case p.Lifecycles[0] != o:
		first := p.Lifecycles[0]
		c.report(lifecyclePackage, []any{"package"}, "package %q has another lifecycle, at %s:%d; put them together", o.Package, first.File, first.Line)
	}
}

// bundles compares the versions in a lifecycle with the bundles. A catalog may lack versions that are older than all of its bundles,
// or that are for other versions of OpenShift.
func (c *lifecycleCheck) bundles(l *lifecycle.Lifecycle, p *fbc.Package) {
	var oldest *semver.Version
	has := map[string]bool{}
	for _, b := range p.Bundles {
		n := b.Number()
		if n == nil {
			continue
		}
		if has[lifecycle.Minor(*n)] = true; oldest == nil || n.LT(*oldest) {
			oldest = n
		}
	}
	if oldest == nil {
		return // there is nothing to compare with
	}
	floor := semver.Version{Major: oldest.Major, Minor: oldest.Minor}
	var unknown []string
	named := map[string]bool{}
	at := 0
	for i, v := range l.Versions {
		if n := lifecycle.Number(v.Name); n == nil || n.LT(floor) || has[v.Name] || named[v.Name] || elsewhere(v, p) {
			continue
		}
		if len(unknown) == 0 {
			at = i
		}
		unknown, named[v.Name] = append(unknown, v.Name), true
	}
	if len(unknown) > 0 {
		c.report(lifecycleBundle, []any{"versions", at, "name"}, "package %q has no bundle of %s %s", p.Name, plural(unknown, "version", "versions"), strings.Join(unknown, ", "))
	}
	var missing []string
	clear(named)
	for _, g := range newSubject(p).graphs {
		for _, head := range g.Heads {
			if head.Number != nil && l.Find(head.Number) == nil && !named[head.Name] {
				missing, named[head.Name] = append(missing, head.Name), true
			}
		}
	}
	if len(missing) > 0 && len(l.Versions) > 0 {
		c.report(lifecycleBundle, []any{"versions"}, "the lifecycle of package %q has no version for %s of channels: %s", p.Name, plural(missing, "the head", "the heads"), strings.Join(missing, ", "))
	}
}

// elsewhere reports whether a version is or may be for other versions of OpenShift than the package's catalog.
func elsewhere(v lifecycle.Version, p *fbc.Package) bool {
	runsOn := v.On(lifecycle.OpenShift)
	own, known := folderVersion(p.File)
	return len(runsOn) > 0 && (!known || !slices.Contains(runsOn, own.String()))
}

func (c *lifecycleCheck) platforms(l *lifecycle.Lifecycle) {
	for i, v := range l.Versions {
		for j, platform := range v.Platforms {
			var unknown []string
			for _, text := range platform.Versions {
				version, err := openshift.Parse(text)
				if _, known := openshift.Find(version); platform.Name == lifecycle.OpenShift && err == nil && !known {
					unknown = append(unknown, text)
				}
			}
			if len(unknown) > 0 {
				c.report(lifecyclePlatform, []any{"versions", i, "platformCompatibility", j, "versions"}, "version %s runs on OpenShift %s, which %s not known", v.Name, strings.Join(unknown, ", "), plural(unknown, "is", "are"))
			}
		}
	}
}
