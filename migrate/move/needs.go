package move

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/constraints"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
)

// propertiesAnnotation has the properties of the bundle.
const propertiesAnnotation = "operatorframework.io/properties"

// propertiesOf returns the properties of a version's bundle.
func propertiesOf(v *v1alpha1.ClusterServiceVersion) ([]property.Property, error) {
	var said struct {
		Properties []property.Property `json:"properties"`
	}
	text := v.Annotations[propertiesAnnotation]
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return nil, fmt.Errorf("annotation %s of ClusterServiceVersion %s/%s: %w", propertiesAnnotation, v.Namespace, v.Name, err)
	}
	return said.Properties, nil
}

// neededOf returns, sorted, v's dependencies on another version, which belongs to package pkg: the package, or APIs of that version.
func neededOf(v *v1alpha1.ClusterServiceVersion, pkg string, of *v1alpha1.ClusterServiceVersion) (found []string) {
	owned := of.Spec.CustomResourceDefinitions.Owned
	for _, r := range v.Spec.CustomResourceDefinitions.Required {
		if slices.ContainsFunc(owned, func(o v1alpha1.CRDDescription) bool { return o.Name == r.Name }) {
			found = append(found, "API "+r.Name)
		}
	}
	properties, err := propertiesOf(v)
	if err != nil { // checkNeeds reports it for the operator that is moved
		properties = nil
	}
	for _, c := range constraintsIn(properties) {
		switch {
		case c.Package != nil && c.Package.PackageName == pkg:
			found = append(found, "package "+pkg)
		case c.GVK != nil:
			for _, o := range owned {
				if _, group, _ := strings.Cut(o.Name, "."); o.Kind == c.GVK.Kind && o.Version == c.GVK.Version && group == c.GVK.Group {
					found = append(found, "API "+o.Name)
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// constraintsIn returns the dependencies among properties, also within compound constraints, but not what these exclude.
func constraintsIn(properties []property.Property) (found []constraints.Constraint) {
	for _, p := range properties {
		c := constraints.Constraint{}
		switch p.Type {
		case property.TypePackageRequired:
			c.Package = &constraints.PackageConstraint{}
			if json.Unmarshal(p.Value, c.Package) != nil {
				continue
			}
		case property.TypeGVKRequired:
			c.GVK = &constraints.GVKConstraint{}
			if json.Unmarshal(p.Value, c.GVK) != nil {
				continue
			}
		case property.TypeConstraint:
			var err error
			if c, err = constraints.Parse(p.Value); err != nil {
				continue
			}
		default:
			continue
		}
		found = append(found, within(c)...)
	}
	return found
}

// within returns a constraint and, if it is a compound one, the constraints that it consists of.
func within(c constraints.Constraint) (found []constraints.Constraint) {
	for _, of := range []*constraints.CompoundConstraint{c.All, c.Any} {
		if of == nil {
			continue
		}
		for _, part := range of.Constraints {
			found = append(found, within(part)...)
		}
	}
	return append(found, c)
}

// needs returns the packages of the namespace that the version needs, sorted.
func (in *input) needs() (found []string) {
	v := in.version()
	for i, other := range in.versions {
		if pkg := in.packages[other.Name]; pkg != "" && other.Name != v.Name && len(neededOf(v, pkg, &in.versions[i])) > 0 {
			found = append(found, pkg)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// checkNeeds warns of the packages that the operator needs: only OLM v0 ensures that they are installed.
func (in *input) checkNeeds() migrate.Checks {
	if _, err := propertiesOf(in.version()); err != nil {
		return migrate.Refuse(needed, "find out who has written it: OLM v0 copies it from the bundle", "nobody can say what the operator needs: %v", err)
	}
	if needs := in.needs(); len(needs) > 0 {
		return migrate.Warn(needed, "keep them installed", "the operator needs %s: OLM v1 neither installs that nor keeps anybody from removing it", strings.Join(needs, ", "))
	}
	return migrate.Pass(needed, "the operator needs no other package of the namespace")
}

// checkDependents refuses an operator that other operators in the namespace need, unless the same run moves those first: OLM v0 would
// install this operator again for them.
func (in *input) checkDependents() (found migrate.Checks) {
	v := in.version()
	var first []string
	for i, other := range in.versions {
		if other.Name == v.Name {
			continue
		}
		needs := neededOf(&in.versions[i], in.request.Package, v)
		switch pkg := in.packages[other.Name]; {
		case len(needs) == 0:
		case pkg != "" && slices.Contains(in.request.With, pkg):
			first = append(first, pkg)
		default:
			do := "remove that operator first, or leave both with OLM v0"
			if pkg != "" {
				do = fmt.Sprintf("move that operator first, or both with `%s`; or leave both with OLM v0", escape.Command("berth move apply %s %s", pkg, in.request.Package))
			}
			found = append(found, migrate.Refuse(dependents, do, "%s needs %s of this operator, and OLM v0 would install it again for that", other.Name, strings.Join(needs, ", "))...)
		}
	}
	switch {
	case len(found) > 0:
		return found
	case len(first) > 0:
		slices.Sort(first)
		return migrate.Pass(dependents, "%s needs this operator, and moves first", strings.Join(first, ", "))
	}
	return migrate.Pass(dependents, "no other operator of the namespace needs this one")
}

// checkNeeds refuses to move an operator back before the packages that it needs: OLM v0 would install them for it, beside OLM v1's.
func (in *back) checkNeeds() (found migrate.Checks) {
	for _, pkg := range in.moved.Needs {
		if !slices.Contains(in.has, pkg) && !slices.Contains(in.request.With, pkg) {
			found = append(found, migrate.Refuse(needed, fmt.Sprintf("move that back first, or both with `%s`", escape.Command("berth move apply %s %s --to %s", pkg, in.moved.Package, string(ToV0))),
				"the operator needs package %s, which OLM v0 does not have in namespace %s: it would install it for the operator, beside OLM v1's", pkg, in.moved.Namespace)...)
		}
	}
	if len(found) == 0 {
		return migrate.Pass(needed, "OLM v0 installs nothing else for the operator")
	}
	return found
}

// Order returns plans in an order in which each can be carried out. On the way to OLM v1, an operator moves before the operators that it
// needs, because OLM v0 would install these again for it; on the way back, it moves after them. Order fails if operators need each other.
func Order(plans []*Plan) ([]*Plan, error) {
	left := slices.Clone(plans)
	var ordered []*Plan
	for len(left) > 0 {
		at := slices.IndexFunc(left, func(p *Plan) bool {
			return !slices.ContainsFunc(left, func(other *Plan) bool { return other.precedes(p) })
		})
		if at < 0 {
			return nil, fmt.Errorf("%s need each other, and whichever moves first, OLM v0 would install it again for another: leave them with their OLM, or remove one of them", strings.Join(circle(left), ", "))
		}
		ordered = append(ordered, left[at])
		left = slices.Delete(left, at, at+1)
	}
	return ordered, nil
}

// precedes reports whether a plan has to be carried out before another.
func (p *Plan) precedes(other *Plan) bool {
	if p.To == ToV0 {
		p, other = other, p
	}
	return p.Package != other.Package && p.Namespace == other.Namespace && slices.Contains(p.Needs, other.Package)
}

// circle returns packages that need each other, sorted. Each of the plans must have another one that precedes it.
func circle(plans []*Plan) (found []string) {
	p := plans[0]
	for !slices.Contains(found, p.Package) {
		found = append(found, p.Package)
		p = plans[slices.IndexFunc(plans, func(other *Plan) bool { return other.precedes(p) })]
	}
	found = found[slices.Index(found, p.Package):]
	slices.Sort(found)
	return found
}
