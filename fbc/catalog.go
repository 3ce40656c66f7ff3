// Package fbc reads and writes file-based catalogs: what the Operator Lifecycle Manager (OLM) reads to learn which
// packages there are, by which channels they are updated, and what a bundle holds.
package fbc

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/fbc/document"
	"github.com/berth-csi/berth/findings"
)

// Catalog is what a catalog folder says. It holds all but the bulk of the bundles, which is read again
// where it is needed.
type Catalog struct {
	// Dir is the folder, as the caller named it.
	Dir string
	// Packages are all that any document names, in the order of their names.
	Packages []*Package
	// Others are the documents of schemas that are not OLM's, in the order of files and lines.
	Others []*Other
	// Files are those of the folder, as they were when they were read.
	Files document.Files
}

// Package is a package and everything that belongs to it. The documents of each kind are in the order
// of files and lines; where two declare the same, the first counts and the others are left out.
type Package struct {
	declcfg.Package
	// Span is where the package is declared, or the first document that names it if it is not.
	document.Span
	// Declared tells whether there is an olm.package document of it.
	Declared     bool
	Channels     []*Channel
	Bundles      []*Bundle
	Deprecations []*Deprecation
	// Incomplete tells that documents beside those of this package could not be read, which may be
	// what this one lacks.
	Incomplete bool

	channels map[string]*Channel
	bundles  map[string]*Bundle
}

// Channel is a channel and the place of its document.
type Channel struct {
	declcfg.Channel
	document.Span
}

// Bundle is a bundle and the place of its document. Its properties of the types olm.bundle.object and
// olm.csv.metadata have no value here, and its objects are left out.
type Bundle struct {
	declcfg.Bundle
	document.Span

	stated  []property.Package
	number  *semver.Version
	content []byte // the document, if no file holds it
}

// Deprecation is what is deprecated in a package, and the place of the document that says so.
type Deprecation struct {
	declcfg.Deprecation
	document.Span
}

// Other is a document of a schema that is not OLM's.
type Other struct {
	declcfg.Meta // without its blob
	document.Span
}

// Find returns the package of a name, or nil.
func (c *Catalog) Find(name string) *Package {
	for _, p := range c.Packages {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// FindChannel returns the channel of a name, or nil.
func (p *Package) FindChannel(name string) *Channel { return p.channels[name] }

// FindBundle returns the bundle of a name, or nil.
func (p *Package) FindBundle(name string) *Bundle { return p.bundles[name] }

// Deprecation returns the message by which something in the package is deprecated: the package itself
// (without a name), a channel or a bundle. It is empty for what is not.
func (p *Package) Deprecation(schema, name string) string {
	for _, d := range p.Deprecations {
		for _, e := range d.Entries {
			if e.Reference.Schema == schema && e.Reference.Name == name {
				return e.Message
			}
		}
	}
	return ""
}

// Number returns the version of the bundle, or nil if it has none that can be parsed.
func (b *Bundle) Number() *semver.Version { return b.number }

// Stated returns the bundle's properties of type olm.package, as far as they can be decoded. A valid
// bundle has one.
func (b *Bundle) Stated() []property.Package { return b.stated }

// newBundle returns a bundle that was read at a span.
func newBundle(read declcfg.Bundle, span document.Span) *Bundle {
	b := &Bundle{Bundle: read, Span: span}
	for _, p := range b.Properties {
		var said property.Package
		if p.Type != property.TypePackage || json.Unmarshal(p.Value, &said) != nil {
			continue
		}
		b.stated = append(b.stated, said)
		if number, err := semver.Parse(said.Version); err == nil && b.number == nil {
			b.number = &number
		}
	}
	return b
}

// Fault returns a finding about the value that a path of keys (string) and indices (int) leads to, in
// the document at a span.
func Fault(rule findings.Rule, span document.Span, path []any, format string, args ...any) *findings.Finding {
	finding := rule.Finding(span.File, format, args...).At(span.Line, 0)
	if len(path) == 0 {
		return finding
	}
	d, err := document.Load(span)
	if err != nil { // it is no longer there; that it changed is found out elsewhere
		return finding
	}
	return finding.At(d.Position(path))
}

// emptyError is about a folder that holds no catalog.
func emptyError(dir string) error {
	return fmt.Errorf("catalog folder %s holds no package; expected YAML or JSON files with %s, %s and %s documents, "+
		"such as %s", dir, declcfg.SchemaPackage, declcfg.SchemaChannel, declcfg.SchemaBundle,
		filepath.Join(dir, "PACKAGE", fileName))
}
