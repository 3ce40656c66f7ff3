package build

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/openshift"
)

// semverChannels is a template of the schema olm.semver: it lists images of bundles, and opm makes channels from their
// versions.
type semverChannels struct {
	template semverTemplate
}

// semverTemplate is the template as people write it.
type semverTemplate struct {
	Schema                       string     `json:"schema"`
	GenerateMajorChannels        bool       `json:"generateMajorChannels,omitempty"`
	GenerateMinorChannels        bool       `json:"generateMinorChannels,omitempty"`
	DefaultChannelTypePreference string     `json:"defaultChannelTypePreference,omitempty"`
	Candidate                    semverList `json:"candidate,omitzero"`
	Fast                         semverList `json:"fast,omitzero"`
	Stable                       semverList `json:"stable,omitzero"`
}

// semverList holds the bundles of one of the lists.
type semverList struct {
	Bundles []semverBundle `json:"bundles,omitempty"`
}

type semverBundle struct {
	Image string `json:"image"`
}

// lists are the names of the lists. The channels of each are NAME-v1, NAME-v1.2 and so on.
var lists = []string{"candidate", "fast", "stable"}

// list returns the list with a name.
func (t *semverTemplate) list(name string) *semverList {
	return map[string]*semverList{"candidate": &t.Candidate, "fast": &t.Fast, "stable": &t.Stable}[name]
}

func (s *semverChannels) read(t *opmTemplate) {
	decoded, found := t.document.DecodeIgnoringCase(&s.template)
	t.found = append(t.found, found...)
	if !decoded {
		return
	}
	for _, list := range lists {
		seen := map[string]bool{}
		for i, b := range s.template.list(list).Bundles {
			path := at(list, "bundles", i)
			switch {
			case b.Image == "":
				t.fault(path, "the bundle has no image; expected one")
			case seen[b.Image]:
				t.fault(path, "image %s is listed twice in %s; expected it once", b.Image, list)
			default:
				t.refer(b.Image, slices.Concat(path, at("image"))...)
			}
			seen[b.Image] = true
		}
	}
	if len(t.refs) == 0 && len(t.found) == 0 {
		t.fault(nil, "the template lists no bundles; expected images in bundles of %s", strings.Join(lists, ", "))
	}
	preferred := map[string]bool{"": true, "major": s.template.GenerateMajorChannels, "minor": s.template.GenerateMinorChannels || !s.template.GenerateMajorChannels}
	if generated, known := preferred[s.template.DefaultChannelTypePreference]; !generated {
		expected := "expected major or minor"
		if known {
			expected = "expected the kind of channels that the template generates"
		}
		t.fault(at("defaultChannelTypePreference"), "defaultChannelTypePreference is %q; %s", s.template.DefaultChannelTypePreference, expected)
	}
}

// packages returns the package of the first bundle that was read.
func (s *semverChannels) packages(t *opmTemplate) map[string][]any {
	for _, r := range t.refs {
		if h := t.held[r.text]; h != nil {
			return map[string][]any{h.document.Package: r.path}
		}
	}
	return nil
}

// check reports bundles that cannot be ordered by version, pre-releases among stable versions, and bundles of other packages.
func (s *semverChannels) check(t *opmTemplate) {
	var first *storedBundle
	lists := map[string]map[string]templateReference{} // by list and by version without build metadata
	for _, r := range t.refs {
		h, list := t.held[r.text], r.path[0].(string)
		if first == nil {
			first = h
		}
		if h.document.Package != first.document.Package {
			t.fault(r.path, "bundle %s is of package %q; expected one of package %q, like the first", h.document.Name, h.document.Package, first.document.Package)
			continue
		}
		version, err := versionOf(h.document)
		if err != nil {
			t.fault(r.path, "bundle %s: %v", h.document.Name, err)
			continue
		}
		if list == "stable" && len(version.Pre) > 0 {
			f := t.faultAt(r.path, "version %s is a pre-release, and the channels stable-v… are for others; list it in candidate or fast", version)
			f.Severity = findings.Warning
			t.found = append(t.found, f)
		}
		if lists[list] == nil {
			lists[list] = map[string]templateReference{}
		}
		built := version.String()
		version.Build = nil
		if other, again := lists[list][version.String()]; again {
			line, _ := t.document.position(t.path(other.path))
			t.fault(r.path, "version %s is a build of %s, and so is the bundle in line %d; expected one of each version in %s, as builds have no order", built, version, line, list)
			continue
		}
		lists[list][version.String()] = r
	}
}

// versionOf returns the version of a bundle.
func versionOf(b declcfg.Bundle) (semver.Version, error) {
	for _, p := range b.Properties {
		if p.Type == property.TypePackage {
			parsed, err := fbc.ParseProperty(p)
			if err != nil {
				return semver.Version{}, err
			}
			return semver.Parse(parsed.Packages[0].Version)
		}
	}
	return semver.Version{}, fmt.Errorf("it has no property of type %s", property.TypePackage)
}

// source returns the template with only the images that a version of OpenShift offers, or nil if it offers none.
func (s *semverChannels) source(t *opmTemplate, v *openshift.Version) []byte {
	if v == nil {
		return t.document.Source
	}
	part, offered := s.template, 0
	for _, name := range lists {
		list := part.list(name)
		list.Bundles = slices.DeleteFunc(slices.Clone(list.Bundles), func(b semverBundle) bool { return !t.offered(b.Image, v) })
		offered += len(list.Bundles)
	}
	if offered == 0 {
		return nil
	}
	text, err := json.Marshal(part)
	if err != nil {
		panic(err) // strings and booleans can be encoded
	}
	return text
}

// origin returns the path of a bundle's or an entry's image, of the list that a channel is made from, or of the schema.
func (s *semverChannels) origin(t *opmTemplate, config *declcfg.DeclarativeConfig, of documentKey, path []any) []any {
	switch of.schema {
	case declcfg.SchemaBundle:
		return t.pathOfBundle(of.name, of.nth)
	case declcfg.SchemaChannel:
		list, _, _ := strings.Cut(of.name, "-v")
		if len(path) < 2 {
			return at(list)
		}
		for _, r := range t.refs {
			if r.path[0] == list && t.held[r.text].document.Name == of.entry(config, path) {
				return r.path
			}
		}
		return at(list)
	}
	return at("schema")
}
