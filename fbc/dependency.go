package fbc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/constraints"
	"github.com/operator-framework/operator-registry/alpha/property"
)

// CheckDependency returns what OLM's resolver would not understand of a property of a bundle. Properties of other types, and those that
// cannot be decoded at all, are fine.
func CheckDependency(p property.Property) error {
	switch p.Type {
	case property.TypePackageRequired:
		var required property.PackageRequired
		if json.Unmarshal(p.Value, &required) != nil {
			return nil // already reported
		}
		return checkRange(required)
	case property.TypeConstraint:
		constraint, err := constraints.Parse(p.Value)
		if err != nil {
			return err
		}
		return checkConstraint(constraint)
	}
	return nil
}

func checkRange(required property.PackageRequired) error {
	if _, err := semver.ParseRange(required.VersionRange); err != nil {
		return fmt.Errorf("its version range is %q; expected one such as %q: %w", required.VersionRange, ">=1.0.0 <2.0.0", err)
	}
	return nil
}

// cel is created when it is first needed, because that takes a while.
var cel = sync.OnceValue(constraints.NewCelEnvironment)

func checkConstraint(c constraints.Constraint) error {
	switch {
	case c.Package != nil:
		return checkRange(property.PackageRequired{PackageName: c.Package.PackageName, VersionRange: c.Package.VersionRange})
	case c.Cel != nil:
		if _, err := cel().Validate(c.Cel.Rule); err != nil {
			said, _, _ := strings.Cut(err.Error(), "\n") // the rest draws the rule
			return fmt.Errorf("its cel rule %q: %s", c.Cel.Rule, strings.TrimPrefix(said, "ERROR: "))
		}
		return nil
	case c.GVK != nil:
		return nil
	}
	for _, compound := range []*constraints.CompoundConstraint{c.All, c.Any, c.Not} {
		if compound == nil {
			continue
		}
		var faults []error
		for _, part := range compound.Constraints {
			faults = append(faults, checkConstraint(part))
		}
		return errors.Join(faults...)
	}
	return errors.New("the constraint is empty; expected one of package, gvk, cel, all, any, not")
}
