package prediction

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver/cache"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/registry"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/constraint"
	"github.com/berth-csi/berth/olm/upgrade"
)

// dependencyReason returns the code and the advice for an entry that OLM cannot install: a dependency that nothing provides,
// or another conflict. The caller sets What.
func (f *subject) dependencyReason(e *upgrade.Entry) Reason {
	if b, fault := f.malformedDependency(); fault != nil {
		return Reason{DependencyMalformed, "", fmt.Sprintf("have the properties of bundle %s at %s:%d corrected in the catalog, as `berth catalog validate` says: %v", b.Name, b.File, b.Line, fault)}
	}
	reason := Reason{Code: Unsatisfied, Do: makeRoom}
	if b := f.pkg.FindBundle(e.Name); b != nil && f.state.dependencyMissing(b) {
		reason = Reason{Code: DependencyMissing, Do: addCatalog}
	}
	if !f.state.allRead() {
		reason.Do = searchElsewhere
	}
	return reason
}

// malformedDependency returns a bundle of the channel with a dependency that OLM cannot read, and the dependency's fault.
func (f *subject) malformedDependency() (*fbc.Bundle, error) {
	for _, e := range f.graph.Entries {
		b := f.pkg.FindBundle(e.Name)
		if b == nil {
			continue
		}
		for _, p := range b.Properties {
			if err := constraint.Check(p); err != nil {
				return b, err
			}
		}
	}
	return nil, nil
}

// allRead reports whether the State has the content of all catalogs that OLM uses.
func (st *State) allRead() bool {
	return !st.hypothetical && !slices.ContainsFunc(st.CatalogSources, func(s *v1alpha1.CatalogSource) bool {
		return st.considers(s) && st.Catalogs[Source{s.Namespace, s.Name}] == nil
	})
}

// dependencyMissing reports whether a bundle requires an API or a package that no catalog has and that nothing in the
// namespace provides.
func (st *State) dependencyMissing(b *fbc.Bundle) bool {
	provided, versions := cache.APISet{}, map[string][]*semver.Version{}
	for _, source := range st.sources() {
		snapshot, isSnapshot := source.(*cache.Snapshot)
		if !isSnapshot {
			continue
		}
		for _, e := range snapshot.Entries {
			maps.Copy(provided, e.ProvidedAPIs)
			versions[e.SourceInfo.Package] = append(versions[e.SourceInfo.Package], e.Version)
		}
	}
	for _, csv := range st.CSVs {
		for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
			provided[registry.APIKey{Group: groupOf(owned.Name), Version: owned.Version, Kind: owned.Kind}] = struct{}{}
		}
	}
	for api := range apis(b, property.TypeGVKRequired) {
		if _, found := provided[api]; !found {
			return true
		}
	}
	for _, p := range b.Properties {
		var required property.PackageRequired
		if p.Type == property.TypePackageRequired && json.Unmarshal(p.Value, &required) == nil && !within(versions[required.PackageName], required.VersionRange) {
			return true
		}
	}
	return false
}

// within reports whether any of the versions is in a range.
func within(versions []*semver.Version, text string) bool {
	accepts, err := fbc.ParseRange(text)
	for _, v := range versions {
		if err == nil && v != nil && accepts(*v) {
			return true
		}
	}
	return false
}
