// Package constraint checks whether OLM's resolver understands the dependencies of a bundle. Catalogs, dependencies.yaml,
// properties.yaml and annotations declare the same kinds of dependencies, so all are checked here.
package constraint

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/operator-framework/api/pkg/constraints"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/catalog/fbc"
)

// LabelRequired is the type of properties that require a bundle with a label.
const LabelRequired = "olm.label.required"

// Check returns an error if OLM's resolver does not understand a dependency. It returns nil for properties of other types, and for
// required packages and APIs that cannot be decoded.
func Check(p property.Property) error {
	switch p.Type {
	case property.TypePackageRequired:
		var required property.PackageRequired
		if json.Unmarshal(p.Value, &required) != nil {
			return nil
		}
		return Package(required.PackageName, required.VersionRange)
	case property.TypeGVKRequired:
		var required property.GVKRequired
		if json.Unmarshal(p.Value, &required) != nil {
			return nil
		}
		return API(required.Group, required.Version, required.Kind)
	case LabelRequired:
		var required struct{ Label string }
		if err := json.Unmarshal(p.Value, &required); err != nil || required.Label == "" {
			return errors.New("expected an object with label")
		}
		return nil
	case property.TypeConstraint:
		constraint, err := constraints.Parse(p.Value)
		if err != nil {
			return err
		}
		return check(constraint)
	}
	return nil
}

// Package checks that a package and a range of its versions are given.
func Package(name, versions string) error {
	if name == "" {
		return errors.New("it names no package; expected a packageName")
	}
	return Range(versions)
}

// Range checks that a text is a range of versions.
func Range(versions string) error {
	if _, err := fbc.ParseRange(versions); err != nil {
		return fmt.Errorf("its version range is %q; expected one such as %q: %w", versions, ">=1.0.0 <2.0.0", err)
	}
	return nil
}

// API checks that all of a group, a version and a kind are given.
func API(group, version, kind string) error {
	var missing []string
	for _, part := range []struct{ name, value string }{{"group", group}, {"version", version}, {"kind", kind}} {
		if part.value == "" {
			missing = append(missing, part.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("its %s is missing; expected group, version and kind, or no bundle can provide the API", strings.Join(missing, " and its "))
	}
	return nil
}

// cel is created when it is first needed, because that takes a while.
var cel = sync.OnceValue(constraints.NewCelEnvironment)

// LongestRule is the length in bytes of the longest CEL rule that is checked. The time that CEL takes to parse a rule grows with the square
// of its length: 5 to 13 s for the 100,000 characters that CEL accepts. Published rules have a few hundred bytes; OLM checks longer ones.
const LongestRule = 8 << 10

func check(c constraints.Constraint) error {
	switch {
	case c.Package != nil:
		return Package(c.Package.PackageName, c.Package.VersionRange)
	case c.Cel != nil && len(c.Cel.Rule) > LongestRule:
		return nil
	case c.Cel != nil:
		if _, err := cel().Validate(c.Cel.Rule); err != nil {
			said, _, _ := strings.Cut(err.Error(), "\n") // the rest draws the rule
			return fmt.Errorf("its cel rule %q: %s", c.Cel.Rule, strings.TrimPrefix(said, "ERROR: "))
		}
		return nil
	case c.GVK != nil:
		return API(c.GVK.Group, c.GVK.Version, c.GVK.Kind)
	}
	for _, compound := range []*constraints.CompoundConstraint{c.All, c.Any, c.Not} {
		if compound == nil {
			continue
		}
		var faults []error
		for _, part := range compound.Constraints {
			faults = append(faults, check(part))
		}
		return errors.Join(faults...)
	}
	return errors.New("the constraint is empty; expected one of package, gvk, cel, all, any, not")
}
