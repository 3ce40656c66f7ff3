package build

import (
	"cmp"
	"maps"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/nearest"
	"github.com/berth-csi/berth/internal/openshift"
)

// substitutes is a template with the documents of a catalog, and with substitutions: bundles that take the place of other bundles.
type substitutes struct {
	entries
	bundles       map[string]declcfg.Bundle // of the entries, by name
	substitutions []substitution
}

// substitution puts a bundle in the place of another one.
type substitution struct {
	Name string `json:"name"` // the image
	Base string `json:"base"` // the name of the other bundle
}

func (s *substitutes) packages(*opmTemplate) map[string][]any { return s.entries.packages() }

func (s *substitutes) read(t *opmTemplate) {
	s.bundles = map[string]declcfg.Bundle{}
	for number, b := range s.readDocuments(t) {
		s.bundles[b.Name] = b
		if b.Name == "" || b.Package == "" {
			t.fault(at("entries", number), "the bundle has no name or no package; expected the whole document, as it is in a catalog: only substitutions name images of bundles")
			continue
		}
		name := documentName{declcfg.SchemaBundle, b.Package, b.Name}
		s.numbers[name] = append(s.numbers[name], number)
		slices.Sort(s.numbers[name])
	}
	var said struct {
		Substitutions []substitution `json:"substitutions"`
	}
	if !t.decodePart(nil, t.document.Content, &said) {
		return
	}
	s.substitutions = said.Substitutions
	for i, sub := range s.substitutions {
		path := at("substitutions", i)
		earlier := func(same func(substitution) bool) bool { return slices.ContainsFunc(s.substitutions[:i], same) }
		switch {
		case sub.Name == "" || sub.Base == "":
			t.fault(path, "a substitution lacks its name or its base; expected the image of a bundle as name, and as base the name of the bundle whose place it takes")
			continue
		case earlier(func(other substitution) bool { return other.Base == sub.Base }):
			t.fault(slices.Concat(path, at("base")), "another bundle takes the place of %s already; expected one", sub.Base)
		case earlier(func(other substitution) bool { return other.Name == sub.Name }):
			t.fault(slices.Concat(path, at("name")), "%s takes the place of another bundle already; expected one place for each", sub.Name)
		}
		t.refer(sub.Name, slices.Concat(path, at("name"))...)
	}
}

// source returns the template unchanged: the catalog is built with all bundles, and the function restricted then drops those that a version
// of OpenShift does not get.
func (s *substitutes) source(t *opmTemplate, _ *openshift.Version) []byte { return t.document.Source }

// check reports faults of the entries, because opm requires a valid catalog. It also reports substitutes for a missing bundle, or for a
// bundle whose version is not earlier.
func (s *substitutes) check(t *opmTemplate) {
	var metas []*declcfg.Meta
	if !t.decodePart(nil, t.document.Content, &struct {
		Entries *[]*declcfg.Meta `json:"entries"`
	}{&metas}) {
		return
	}
	config, err := declcfg.LoadSlice(metas)
	if err != nil {
		t.fault(at("entries"), "%s", oneLine(err))
		return
	}
	for _, c := range ofPackages(config) {
		for _, f := range t.checkCatalog(c) {
			if f.Severity == findings.Error {
				t.found = append(t.found, f)
			}
		}
	}
	known := maps.Clone(s.bundles)
	for i, sub := range s.substitutions {
		h, base := t.held[sub.Name], at("substitutions", i, "base")
		other, is := known[sub.Base]
		known[h.document.Name] = h.document
		if !is {
			t.fault(base, "there is no bundle %s, neither in the entries nor in an earlier substitution%s", sub.Base, nearest.Hint(sub.Base, slices.Collect(maps.Keys(known))))
			continue
		}
		version, err := h.document.VersionRelease()
		otherVersion, otherErr := other.VersionRelease()
		if err := cmp.Or(err, otherErr); err != nil {
			t.fault(base, "%v", err)
		} else if otherVersion.Compare(version) >= 0 {
			t.fault(base, "%s takes the place of %s, which is not an earlier version; expected one", h.document.Name, sub.Base)
		}
	}
}

func (s *substitutes) origin(t *opmTemplate, config *declcfg.DeclarativeConfig, of documentKey, path []any) []any {
	own := s.entries.origin(config, of, path)
	switch {
	case of.schema == declcfg.SchemaBundle && own == nil:
		return t.pathOfBundle(of.name, 0)
	case of.schema == declcfg.SchemaChannel && len(path) >= 2 && len(own) == 2: // an entry that the library has added
		return t.pathOfBundle(of.entry(config, path), 0)
	}
	return own
}
