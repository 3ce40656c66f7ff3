package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	opmtemplate "github.com/operator-framework/operator-registry/alpha/template"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/openshift"
	"github.com/berth-csi/berth/olm/upgrade"
)

// kind is a kind of opm's templates.
type kind interface {
	// read reads the template and its references.
	read(*opmTemplate)
	// packages returns the known packages of the template, each with its path.
	packages(*opmTemplate) map[string][]any
	// source returns the input of opm's library: the template with at least the bundles that a version of OpenShift offers, or nil.
	source(*opmTemplate, *openshift.Version) []byte
	// origin maps a document of a catalog, or the value at a path in it, to the path in the template that it comes from.
	origin(t *opmTemplate, config *declcfg.DeclarativeConfig, of documentKey, path []any) []any
	// check reports faults of the template that depend on its bundles.
	check(*opmTemplate)
}

// documentKey identifies a document of a catalog that was built from a template. nth counts documents with the same name from 0.
type documentKey struct {
	schema, name string
	nth          int
}

// entry returns the name of the entry of a channel that a path leads to.
func (m documentKey) entry(config *declcfg.DeclarativeConfig, path []any) string {
	nth := m.nth
	for _, c := range config.Channels {
		if c.Name != m.name {
			continue
		}
		if nth == 0 {
			return c.Entries[path[1].(int)].Name
		}
		nth--
	}
	return ""
}

// kinds are the kinds by schema.
var kinds = map[string]func() kind{
	"olm.template.basic":       func() kind { return &basic{} },
	"olm.semver":               func() kind { return &semverChannels{} },
	"olm.template.substitutes": func() kind { return &substitutes{} },
}

// schemas returns the schemas of all kinds of templates.
func schemas() []string {
	return append([]string{Schema}, slices.Sorted(maps.Keys(kinds))...)
}

// opmSchema returns the schema of a template of opm, or "" for any other document.
func opmSchema(d document.Document) string {
	var content any
	if json.Unmarshal(d.Content, &content) != nil {
		return ""
	}
	_, value := field(content, "schema")
	schema, _ := value.(string)
	if kinds[schema] == nil {
		return ""
	}
	return schema
}

// field returns a field of an object, and its key in the template's spelling: opm's tools ignore the case of keys.
func field(object any, name string) (key string, value any) {
	fields, _ := object.(map[string]any)
	if value, is := fields[name]; is {
		return name, value
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if strings.EqualFold(key, name) {
			return key, fields[key]
		}
	}
	return name, nil
}

// opmTemplate is one of opm's templates.
type opmTemplate struct {
	kind
	document located
	content  any // of the document, decoded
	options  Options
	found    []*findings.Finding
	refs     []templateReference
	held     map[string]*storedBundle // by the text of the reference
}

// templateReference is a reference with its path in the template.
type templateReference struct {
	reference
	text string // as it is in the template
	path []any
}

func newOPMTemplate(documents []document.Document, schema string, o Options) *opmTemplate {
	t := &opmTemplate{kind: kinds[schema](), document: locate(documents[0]), options: o, held: map[string]*storedBundle{}}
	t.found = secondDocument(documents)
	if err := json.Unmarshal(t.document.Content, &t.content); err != nil {
		t.fault(nil, "%v", err)
		return t
	}
	t.read(t)
	return t
}

// path returns a path with the keys as the template spells them.
func (t *opmTemplate) path(path []any) (written []any) {
	value := t.content
	for _, step := range path {
		switch step := step.(type) {
		case string:
			var key string
			key, value = field(value, step)
			written = append(written, key)
		case int:
			elements, _ := value.([]any)
			value = nil
			if step < len(elements) {
				value = elements[step]
			}
			written = append(written, step)
		}
	}
	return written
}

func (t *opmTemplate) faultAt(path []any, format string, args ...any) *findings.Finding {
	return t.document.FaultAt(ruleTemplate, t.path(path), format, args...)
}

func (t *opmTemplate) fault(path []any, format string, args ...any) {
	t.found = append(t.found, t.faultAt(path, format, args...))
}

func (t *opmTemplate) findings() *[]*findings.Finding { return &t.found }

func (t *opmTemplate) file() string { return t.document.File }

func (t *opmTemplate) packages() map[string][]any { return t.kind.packages(t) }

// refer adds a reference: a folder if one of that name is beside the template, or else an image.
func (t *opmTemplate) refer(text string, path ...any) {
	folder := text
	if !filepath.IsAbs(text) {
		folder = filepath.Join(filepath.Dir(t.document.File), text)
	}
	r := reference{image: text, asWritten: true, lean: true}
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		r = reference{folder: folder, lean: true}
	}
	t.refs = append(t.refs, templateReference{r, text, path})
}

func (t *opmTemplate) references() (all []reference) {
	for _, r := range t.refs {
		all = append(all, r.reference)
	}
	return all
}

// take takes the bundles from the set.
func (t *opmTemplate) take(s *bundleSet) {
	for _, r := range t.refs {
		from := s.bundles[r.reference]
		if t.held[r.text] == nil && from.held != nil {
			for _, f := range from.held.found {
				if r.folder != "" {
					f.Severity = findings.Error
				}
				t.found = append(t.found, f)
			}
			if _, err := offers(from.held.versions, openshift.Version{}); err != nil && len(t.options.Versions) > 0 {
				t.found = append(t.found, notOffered(t.document, t.path(r.path), from.held.document.Name, err))
			}
			t.held[r.text] = from.held
		}
		t.found = append(t.found, unread(t.document, t.path(r.path), from.err)...)
	}
	if findings.Count(t.found, findings.Error) == 0 {
		t.check(t)
	}
}

// offered reports whether the catalogs of a version of OpenShift offer a bundle. Without a version, it returns true.
func (t *opmTemplate) offered(reference string, v *openshift.Version) bool {
	if v == nil || t.held[reference] == nil {
		return true
	}
	does, _ := offers(t.held[reference].versions, *v) // take reports a fault
	return does
}

// catalogs builds the catalogs of a target: one for each package of the template.
func (t *opmTemplate) catalogs(ctx context.Context, of target) (catalogs []*Catalog, found []*findings.Finding) {
	config, err := t.render(ctx, of.version)
	switch {
	case errors.Is(err, errNothing):
		return nil, nil
	case err != nil:
		return nil, []*findings.Finding{t.faultAt(nil, "opm's library makes no catalog of this template: %s", oneLine(err))}
	}
	for _, c := range ofPackages(config) {
		if of.version != nil {
			c = restricted(c, func(name string) bool { return t.offersName(name, *of.version) })
			if len(c.Channels) == 0 {
				continue
			}
			if lost, chosen := chooseDefault(c); lost != "" {
				found = append(found, otherDefault(t.document, t.path(t.origin(t, c, documentKey{schema: declcfg.SchemaPackage, name: c.Packages[0].Name}, at("defaultChannel"))), lost, chosen))
			}
		}
		if t.options.StrandNobody {
			strandNobody(c)
		}
		found = append(found, t.checkCatalog(c)...)
		texts := map[string]document.Span{}
		for _, b := range c.Bundles {
			if h := t.heldOf(b); h != nil {
				texts[b.Name] = h.texts[of.formatOf(render.Whole)]
			}
		}
		catalogs = append(catalogs, &Catalog{Config: c, texts: texts})
	}
	return catalogs, found
}

// errNothing says that a version of OpenShift offers no bundle of a template.
var errNothing = errors.New("no bundle is for this version of OpenShift")

// render makes the catalog with opm's library. The library gets each bundle without payload, and the text of its reference as its image.
func (t *opmTemplate) render(ctx context.Context, v *openshift.Version) (*declcfg.DeclarativeConfig, error) {
	source := t.source(t, v)
	if source == nil {
		return nil, errNothing
	}
	renderBundle := func(_ context.Context, reference string) (*declcfg.DeclarativeConfig, error) {
		h := t.held[reference]
		if h == nil {
			return nil, fmt.Errorf("bundle %s was not read", reference)
		}
		b := h.document
		b.Image, b.Properties = reference, slices.DeleteFunc(slices.Clone(b.Properties), func(p property.Property) bool { return fbc.IsPayload(p.Type) })
		return &declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{b}}, nil
	}
	library, reader, err := opmtemplate.NewRegistry().CreateTemplateBySchema(bytes.NewReader(source), renderBundle)
	if err != nil {
		return nil, err
	}
	config, err := library.Render(ctx, reader)
	if err != nil {
		return nil, err
	}
	for i, b := range config.Bundles {
		if h := t.held[b.Image]; h != nil && h.document.Name == b.Name {
			config.Bundles[i] = h.document
		}
	}
	return config, nil
}

// heldOf returns the stored copy of a bundle in a catalog, or nil if the bundle comes from the template itself.
func (t *opmTemplate) heldOf(b declcfg.Bundle) *storedBundle {
	for _, r := range t.refs {
		if h := t.held[r.text]; h != nil && h.document.Name == b.Name && h.document.Image == b.Image {
			return h
		}
	}
	return nil
}

// offersName is like offered, for the name of a bundle.
func (t *opmTemplate) offersName(name string, v openshift.Version) bool {
	for text, h := range t.held {
		if h.document.Name == name {
			return t.offered(text, &v)
		}
	}
	return true
}

// ofPackages splits a catalog into one for each package, by name, and one for documents without a package.
func ofPackages(config *declcfg.DeclarativeConfig) (all []*declcfg.DeclarativeConfig) {
	byName := map[string]*declcfg.DeclarativeConfig{}
	of := func(name string) *declcfg.DeclarativeConfig {
		if byName[name] == nil {
			byName[name] = &declcfg.DeclarativeConfig{}
		}
		return byName[name]
	}
	for _, p := range config.Packages {
		c := of(p.Name)
		c.Packages = append(c.Packages, p)
	}
	for _, d := range config.Channels {
		c := of(d.Package)
		c.Channels = append(c.Channels, d)
	}
	for _, d := range config.Bundles {
		c := of(d.Package)
		c.Bundles = append(c.Bundles, d)
	}
	for _, d := range config.Deprecations {
		c := of(d.Package)
		c.Deprecations = append(c.Deprecations, d)
	}
	for _, d := range config.Others {
		c := of(d.Package)
		c.Others = append(c.Others, d)
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	return all
}

// checkCatalog applies all rules for catalogs. Faults that do not keep OLM's tools from serving are warnings, because opm made the
// graph.
func (t *opmTemplate) checkCatalog(config *declcfg.DeclarativeConfig) []*findings.Finding {
	seen := map[documentKey]int{}
	found := check(config, t.options.Against, func(schema, name string) origin {
		of := documentKey{schema: schema, name: name}
		seen[of]++
		of.nth = seen[of] - 1 // the keys of seen have no nth
		return func(path []any) (document.Document, []any) {
			return t.document.Document, t.path(t.origin(t, config, of, path))
		}
	})
	for _, f := range found {
		if slices.Contains(rules.Serve, f.Rule) {
			f.Severity = findings.Warning
		}
	}
	return found
}

// oneLine returns an error in one line: opm's library draws errors as trees.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// strandNobody makes the heads of channels skip the entries from which no update leads to them.
func strandNobody(config *declcfg.DeclarativeConfig) {
	read, _ := fbc.Of(config, func(string, string) document.Span { return document.Span{} })
	for i := range config.Channels {
		c := &config.Channels[i]
		p := read.Find(c.Package)
		graph := upgrade.Of(p, p.FindChannel(c.Name))
		var left []string
		for _, e := range graph.Stranded() {
			if graph.Heads[0].Follows(upgrade.Version{Name: e.Name}) == "" {
				left = append(left, e.Name)
			}
		}
		if len(left) > 0 {
			head := &c.Entries[graph.Heads[0].Index]
			head.Skips = slices.Concat(head.Skips, left)
		}
	}
}
