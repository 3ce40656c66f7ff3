package fbc

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/internal/findings"
)

// assemble puts a catalog together from the entries of its documents.
func assemble(dir string, entries []entry) (*Catalog, []*findings.Finding) {
	a := assembly{Catalog: &Catalog{Dir: dir}, packages: map[string]*Package{}, copies: map[copied]*findings.Finding{}, titles: map[copied][]string{},
		faulty: map[string]bool{}, incomplete: map[string]bool{}}
	for i, e := range entries {
		a.add(e)
		entries[i] = entry{} // frees memory: there may be very many, and they are copied
	}
	for _, name := range slices.Sorted(maps.Keys(a.packages)) {
		a.Packages = append(a.Packages, a.packages[name])
	}
	for _, o := range a.Others {
		if p := a.packages[o.Package]; p != nil && o.Schema == lifecycle.Schema {
			p.Lifecycles = append(p.Lifecycles, o)
		}
	}
	a.markIncomplete()
	a.describeCopies()
	return a.Catalog, a.hinted()
}

// Of returns the catalog of a configuration that was not read from a folder, and findings about duplicate documents. from returns
// the place of the document with a schema and a name; Of calls it for the documents of each schema in their order.
func Of(config *declcfg.DeclarativeConfig, from func(schema, name string) document.Span) (*Catalog, []*findings.Finding) {
	var entries []entry
	for _, p := range config.Packages {
		entries = append(entries, entry{pkg: &p, span: from(p.Schema, p.Name)})
	}
	for _, c := range config.Channels {
		entries = append(entries, entry{channel: &c, span: from(c.Schema, c.Name)})
	}
	for _, b := range config.Bundles {
		e := entry{bundle: &b, whole: true, span: from(b.Schema, b.Name)}
		if lacksPayload(b) {
			e.whole, e.content = false, noPayload
		}
		entries = append(entries, e)
	}
	for _, d := range config.Deprecations {
		entries = append(entries, entry{deprecation: &d, span: from(d.Schema, d.Package)})
	}
	return assemble("", entries)
}

// lacksPayload reports whether the payload of a bundle is kept elsewhere: its properties have no values.
func lacksPayload(b declcfg.Bundle) bool {
	return slices.ContainsFunc(b.Properties, func(p property.Property) bool { return IsPayload(p.Type) && len(p.Value) == 0 })
}

// assembly is a catalog under construction.
type assembly struct {
	*Catalog
	packages map[string]*Package
	faults   []*findings.Finding
	copies   map[copied]*findings.Finding
	titles   map[copied][]string
	names    texts
	// faulty are areas with unreadable documents that may belong to any package; incomplete are the packages of other unreadable documents.
	faulty, incomplete map[string]bool
}

// copied identifies the documents of a package, pkg, that a file repeats from an earlier file, first.
type copied struct{ file, first, pkg string }

func (a *assembly) add(e entry) {
	switch {
	case e.fault != nil:
		a.faults = append(a.faults, e.fault)
		for _, name := range e.owners {
			a.incomplete[name] = true
		}
		if e.owners == nil {
			a.faulty[area(a.Dir, e.fault.File)] = true
		}
	case e.other != nil:
		a.Others = append(a.Others, &Other{*e.other, e.span})
	case e.pkg != nil:
		if p := a.inPackage(e.pkg.Name, e.span); p.Declared {
			a.duplicate(e, declcfg.SchemaPackage, p.Name, p.Name, p.Span)
		} else {
			p.Package, p.Span, p.Declared = *e.pkg, e.span, true
		}
	case e.channel != nil:
		p := a.inPackage(e.channel.Package, e.span)
		if first := p.channels[e.channel.Name]; first != nil {
			a.duplicate(e, declcfg.SchemaChannel, first.Name, p.Name, first.Span)
			return
		}
		c := &Channel{*e.channel, e.span}
		a.shareNames(p, c)
		p.Channels, p.channels[c.Name] = append(p.Channels, c), c
	case e.bundle != nil:
		p := a.inPackage(e.bundle.Package, e.span)
		if first := p.bundles[e.bundle.Name]; first != nil {
			a.duplicate(e, declcfg.SchemaBundle, first.Name, p.Name, first.Span)
			return
		}
		e.bundle.Package, e.bundle.Name = p.Name, a.names.shared(e.bundle.Name)
		b := newBundle(*e.bundle, e.span)
		b.content, b.whole, b.undecodable = e.content, e.whole, e.undecodable
		p.Bundles, p.bundles[b.Name] = append(p.Bundles, b), b
	case e.deprecation != nil:
		p := a.inPackage(e.deprecation.Package, e.span)
		if len(p.Deprecations) > 0 {
			a.duplicate(e, declcfg.SchemaDeprecation, "", p.Name, p.Deprecations[0].Span)
			return
		}
		p.Deprecations = append(p.Deprecations, &Deprecation{*e.deprecation, e.span})
		for _, said := range e.deprecation.Entries {
			if _, known := p.deprecated[said.Reference]; !known {
				p.deprecated[said.Reference] = said.Message
			}
		}
	}
}

// shareNames keeps each name of a bundle in memory once, although channels repeat it.
func (a *assembly) shareNames(p *Package, c *Channel) {
	c.Package = p.Name
	c.Entries = slices.Clone(c.Entries) // no larger than needed
	for i := range c.Entries {
		e := &c.Entries[i]
		e.Name, e.Replaces, e.SkipRange = a.names.shared(e.Name), a.names.shared(e.Replaces), a.names.shared(e.SkipRange)
		for j := range e.Skips {
			e.Skips[j] = a.names.shared(e.Skips[j])
		}
		e.Skips = slices.Clone(e.Skips)
	}
}

// inPackage returns the package with a name, and adds it if it is new. span is the span of one of its documents.
func (a *assembly) inPackage(name string, span document.Span) *Package {
	p := a.packages[name]
	if p == nil {
		p = &Package{Span: span, channels: map[string]*Channel{}, bundles: map[string]*Bundle{}, deprecated: map[declcfg.PackageScopedReference]string{}}
		p.Name = name
		a.packages[name] = p
	}
	return p
}

// duplicate reports a document that the catalog already has. All documents of a package that one file repeats from another are one
// fault.
func (a *assembly) duplicate(e entry, schema, name, pkg string, first document.Span) {
	of := copied{e.span.File, first.File, pkg}
	a.titles[of] = append(a.titles[of], title(schema, name))
	if fault := a.copies[of]; fault != nil {
		return // describeCopies adds the document to it
	}
	fault := Duplicate.Finding(e.span.File, "%s of package %q is declared twice; the first declaration is at %s:%d",
		title(schema, name), pkg, first.File, first.Line).At(e.span.Line, 0).In(pkg)
	a.faults = append(a.faults, fault)
	if first.File != e.span.File {
		a.copies[of] = fault
	}
}

// describeCopies lists in each fault all documents that a file repeats. It does so at the end, because there may be very many.
func (a *assembly) describeCopies() {
	for of, fault := range a.copies {
		if titles := a.titles[of]; len(titles) > 1 {
			fault.Message = fmt.Sprintf("%s of package %q are declared twice; the first declarations are in %s", strings.Join(titles, ", "), of.pkg, of.first)
		}
	}
}

// markIncomplete marks packages with documents that could not be read, or that may have such documents.
func (a *assembly) markIncomplete() {
	for _, p := range a.Packages {
		p.Incomplete = a.incomplete[p.Name]
		for span := range p.spans {
			p.Incomplete = p.Incomplete || a.faulty[area(a.Dir, span.File)]
		}
	}
}

// spans yields the spans of all documents of a package.
func (p *Package) spans(yield func(document.Span) bool) {
	all := []document.Span{p.Span}
	for _, c := range p.Channels {
		all = append(all, c.Span)
	}
	for _, b := range p.Bundles {
		all = append(all, b.Span)
	}
	for _, d := range p.Deprecations {
		all = append(all, d.Span)
	}
	slices.Values(all)(yield)
}

// extensions are the usual extensions of catalog files.
var extensions = []string{".yaml", ".yml", ".json"}

// hinted returns the faults in order. A file that may not belong to the catalog keeps only its first fault, with a hint.
func (a *assembly) hinted() []*findings.Finding {
	findings.Sort(a.faults)
	before := ""
	return slices.DeleteFunc(a.faults, func(fault *findings.Finding) bool {
		if slices.Contains(extensions, filepath.Ext(fault.File)) {
			return false
		}
		if fault.File == before {
			return true
		}
		before = fault.File
		fault.Message += fmt.Sprintf("; if this file is not part of the catalog, list it in an %s file next to it", document.IgnoreFile)
		return false
	})
}
