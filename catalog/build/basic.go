package build

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/openshift"
)

// basic is a template with the documents of a catalog, but only the image of each bundle.
type basic struct{ entries }

// entries holds the documents in a template. An entry's number is its index in the template's list of entries.
type entries struct {
	raw      []json.RawMessage
	numbers  map[documentName][]int
	channels map[int]map[string]int // by the number of a channel's document: the index of each entry of the channel, by name
}

// documentName identifies a document of a catalog.
type documentName struct{ schema, pkg, name string }

func nameOfPackage(name string) documentName {
	return documentName{declcfg.SchemaPackage, name, name}
}

// readDocuments reads the documents, and returns the bundles among them.
func (e *entries) readDocuments(t *opmTemplate) (bundles map[int]declcfg.Bundle) {
	e.numbers, e.channels, bundles = map[documentName][]int{}, map[int]map[string]int{}, map[int]declcfg.Bundle{}
	_, listed := field(t.content, "entries")
	if list, _ := listed.([]any); len(list) == 0 {
		t.fault(at("entries"), "the template has no entries; expected the documents of a package and its channels, and the images of its bundles")
		return bundles
	}
	var said struct {
		Entries []json.RawMessage `json:"entries"`
	}
	if err := json.Unmarshal(t.document.Content, &said); err != nil {
		t.fault(nil, "%v", err)
		return bundles
	}
	e.raw = said.Entries
	for i, raw := range e.raw {
		e.readDocument(t, i, raw, bundles)
	}
	return bundles
}

// readDocument reads the document of the entry with this number.
func (e *entries) readDocument(t *opmTemplate, number int, raw json.RawMessage, bundles map[int]declcfg.Bundle) {
	var meta declcfg.Meta
	path := at("entries", number)
	if raw[0] != '{' {
		t.fault(path, "expected an object, the document of a catalog")
		return
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		t.fault(path, "expected the document of a catalog: %s", oneLine(err))
		return
	}
	name := documentName{meta.Schema, meta.Package, meta.Name}
	switch meta.Schema {
	case declcfg.SchemaBundle:
		var b declcfg.Bundle
		if t.decodePart(path, raw, &b) {
			bundles[number] = b
		}
		return // the read functions check whether a bundle is complete
	case declcfg.SchemaPackage:
		t.decodePart(path, raw, &declcfg.Package{})
		name = nameOfPackage(meta.Name)
	case declcfg.SchemaChannel:
		var c declcfg.Channel
		t.decodePart(path, raw, &c)
		e.channels[number] = map[string]int{}
		for i, update := range c.Entries {
			if _, again := e.channels[number][update.Name]; !again {
				e.channels[number][update.Name] = i
			}
		}
	case declcfg.SchemaDeprecation:
		t.decodePart(path, raw, &declcfg.Deprecation{})
		name.name = ""
	default:
		if meta.Schema == "" || strings.HasPrefix(meta.Schema, "olm.") {
			t.found = append(t.found, t.document.FaultAt(fbc.Schema, t.path(slices.Concat(path, at("schema"))), "no document of a catalog has schema %q; expected one of %s", meta.Schema,
				strings.Join([]string{declcfg.SchemaPackage, declcfg.SchemaChannel, declcfg.SchemaBundle, declcfg.SchemaDeprecation}, ", ")))
		}
	}
	if name.pkg == "" {
		t.fault(path, "the document of schema %s names no package, and a catalog has a folder for each", meta.Schema)
	}
	e.numbers[name] = append(e.numbers[name], number)
}

// decodePart decodes a part of the template, and reports its fault.
func (t *opmTemplate) decodePart(path []any, raw []byte, into any) (decoded bool) {
	err := t.document.DecodePart(t.path(path), raw, into)
	var found *findings.Finding
	switch {
	case err == nil:
	case errors.As(err, &found):
		t.found = append(t.found, found)
	case errors.As(err, new(base64.CorruptInputError)):
		t.found = append(t.found, t.document.FaultAt(document.Field, t.path(slices.Concat(path, at("icon", "base64data"))), "the icon is not in base64: %v", err))
	default:
		t.found = append(t.found, t.document.FaultAt(document.Field, t.path(path), "%v", err))
	}
	return err == nil
}

// origin returns the path in the template that a document, or a value in it, comes from.
func (e *entries) origin(config *declcfg.DeclarativeConfig, of documentKey, path []any) []any {
	own := documentName{of.schema, packageOf(config), of.name}
	if of.schema == declcfg.SchemaDeprecation {
		own.name = ""
	}
	if of.nth >= len(e.numbers[own]) {
		return nil
	}
	number := e.numbers[own][of.nth]
	whole := slices.Concat(at("entries", number), path)
	if of.schema != declcfg.SchemaChannel || len(path) < 2 {
		return whole
	}
	if index, is := e.channels[number][of.entry(config, path)]; is {
		whole[3] = index
		return whole
	}
	return at("entries", number)
}

// packageOf returns the name of a catalog's only package.
func packageOf(config *declcfg.DeclarativeConfig) string {
	switch {
	case len(config.Packages) > 0:
		return config.Packages[0].Name
	case len(config.Channels) > 0:
		return config.Channels[0].Package
	case len(config.Bundles) > 0:
		return config.Bundles[0].Package
	case len(config.Deprecations) > 0:
		return config.Deprecations[0].Package
	}
	return ""
}

// packages returns the packages that have a document in the template.
func (e *entries) packages() map[string][]any {
	all := map[string][]any{}
	for name, numbers := range e.numbers {
		if name.schema == declcfg.SchemaPackage {
			all[name.name] = at("entries", numbers[0], "name")
		}
	}
	return all
}

func (b *basic) packages(*opmTemplate) map[string][]any { return b.entries.packages() }

// read reads the template. It rejects bundles that have more than an image, unless opm would ignore the other fields.
func (b *basic) read(t *opmTemplate) {
	for number, bundle := range b.readDocuments(t) {
		switch path := at("entries", number); {
		case bundle.Image == "":
			t.fault(path, "the bundle has no image; expected one in each entry of schema %s", declcfg.SchemaBundle)
		case bundle.Package != "" || len(bundle.Properties) > 0 || len(bundle.RelatedImages) > 0:
			t.fault(path, "the bundle has more than its image, so this may be a catalog already; expected schema and image alone")
		default:
			t.refer(bundle.Image, slices.Concat(path, at("image"))...)
		}
	}
	slices.SortFunc(t.refs, func(a, b templateReference) int { return a.path[1].(int) - b.path[1].(int) })
}

// source returns the template unchanged: restricted cuts the catalog for a version of OpenShift out of the catalog with all bundles.
func (b *basic) source(t *opmTemplate, _ *openshift.Version) []byte { return t.document.Source }

func (b *basic) check(*opmTemplate) {}

func (b *basic) origin(t *opmTemplate, config *declcfg.DeclarativeConfig, of documentKey, path []any) []any {
	if of.schema != declcfg.SchemaBundle {
		return b.entries.origin(config, of, path)
	}
	return t.pathOfBundle(of.name, of.nth)
}

// pathOfBundle returns the path of the nth reference to a bundle, or of the last one if there are fewer.
func (t *opmTemplate) pathOfBundle(name string, nth int) (path []any) {
	for _, r := range t.refs {
		if h := t.held[r.text]; h == nil || h.document.Name != name {
			continue
		}
		if path = r.path; nth == 0 {
			break
		}
		nth--
	}
	return path
}
