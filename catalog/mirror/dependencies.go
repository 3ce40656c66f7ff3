package mirror

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/constraints"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/catalog/fbc"
)

// offer holds the packages and APIs of a catalog on which bundles may depend.
type offer struct {
	versions map[string][]semver.Version // by package
	apis     map[property.GVK]bool
	left     int // bytes of ranges that may still be compared with a version
}

// comparedRanges limits how many bytes of ranges are compared with versions, because many bundles may require a package of many versions.
const comparedRanges = 256 << 20

func offerOf(c *fbc.Catalog) *offer {
	o := &offer{map[string][]semver.Version{}, map[property.GVK]bool{}, comparedRanges}
	for _, p := range c.Packages {
		for _, b := range p.Bundles {
			if number := b.Number(); number != nil {
				o.versions[p.Name] = append(o.versions[p.Name], *number)
			}
			for _, prop := range b.Properties {
				var api property.GVK
				if prop.Type == property.TypeGVK && json.Unmarshal(prop.Value, &api) == nil {
					o.apis[api] = true
				}
			}
		}
	}
	return o
}

// dependencyWarnings returns a warning for each dependency that bundles of a package need and the catalog lacks.
func dependencyWarnings(c *fbc.Catalog) (warnings []string) {
	o := offerOf(c)
	for _, p := range c.Packages {
		var order []string
		needing := map[string][]string{} // the names of bundles by their missing dependency
		for _, b := range p.Bundles {
			for _, lacked := range o.lackedBy(b) {
				if needing[lacked] == nil {
					order = append(order, lacked)
				}
				needing[lacked] = append(needing[lacked], b.Name)
			}
		}
		for _, lacked := range order {
			warnings = append(warnings, fmt.Sprintf("package %s depends on %s, which the smaller catalog lacks: %s", p.Name, lacked, shortened(needing[lacked])))
		}
	}
	if o.left < 0 {
		warnings = append(warnings, "the bundles have so many dependencies on packages of so many versions that not all are compared: the smaller catalog may lack others")
	}
	return warnings
}

// maxNamed is how many bundles a warning names.
const maxNamed = 3

func shortened(names []string) string {
	if others := len(names) - maxNamed; others > 0 {
		return fmt.Sprintf("%s and %d others", strings.Join(names[:maxNamed], ", "), others)
	}
	return strings.Join(names, ", ")
}

// lackedBy returns the missing dependencies of a bundle, each once.
func (o *offer) lackedBy(b *fbc.Bundle) (all []string) {
	for _, p := range b.Properties {
		switch p.Type {
		case property.TypePackageRequired:
			var required constraints.PackageConstraint
			if json.Unmarshal(p.Value, &required) == nil {
				all = append(all, o.lacked(constraints.Constraint{Package: &required})...)
			}
		case property.TypeGVKRequired:
			var required constraints.GVKConstraint
			if json.Unmarshal(p.Value, &required) == nil {
				all = append(all, o.lacked(constraints.Constraint{GVK: &required})...)
			}
		case property.TypeConstraint:
			if c, err := constraints.Parse(p.Value); err == nil {
				all = append(all, o.lacked(c)...)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// lacked returns the missing dependencies of a constraint. It ignores rules in CEL, which only OLM can evaluate.
func (o *offer) lacked(c constraints.Constraint) (all []string) {
	switch {
	case c.Package != nil:
		if !o.hasPackage(c.Package.PackageName, c.Package.VersionRange) {
			return []string{fmt.Sprintf("package %s in the versions %q", c.Package.PackageName, c.Package.VersionRange)}
		}
	case c.GVK != nil:
		if !o.apis[property.GVK{Group: c.GVK.Group, Version: c.GVK.Version, Kind: c.GVK.Kind}] {
			return []string{fmt.Sprintf("API %s %s/%s", c.GVK.Kind, c.GVK.Group, c.GVK.Version)}
		}
	case c.All != nil:
		for _, part := range c.All.Constraints {
			all = append(all, o.lacked(part)...)
		}
	case c.Any != nil:
		var alternatives []string
		for _, part := range c.Any.Constraints {
			lacked := o.lacked(part)
			if len(lacked) == 0 {
				return nil
			}
			alternatives = append(alternatives, strings.Join(lacked, " and "))
		}
		if len(alternatives) > 0 {
			return []string{strings.Join(alternatives, " or ")}
		}
	}
	return all
}

func (o *offer) hasPackage(name, text string) bool {
	accepts, err := fbc.ParseRange(text)
	if err != nil {
		return true // a rule reports an invalid range
	}
	if o.left -= len(text) * len(o.versions[name]); o.left < 0 {
		return true // dependencyWarnings says so
	}
	return slices.ContainsFunc(o.versions[name], func(v semver.Version) bool { return accepts(v) })
}
