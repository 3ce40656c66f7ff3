// Package fbc reads and writes file-based catalogs: the packages, channels and bundles that the Operator Lifecycle
// Manager (OLM) installs operators from.
package fbc

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/findings/nearest"
)

// Catalog is a catalog in memory, without the payload of its bundles, which is read again when needed.
type Catalog struct {
	// Dir is the folder as the caller named it.
	Dir string
	// Packages are all packages that any document names, sorted by name.
	Packages []*Package
	// Others are the documents of schemas that OLM does not define, in the order of files and lines.
	Others []*Other
	// Files are the files of the folder as they were when they were read.
	Files document.Files
}

// Package is a package and everything that belongs to it. The documents of each kind are in the order of files and lines.
// If several declare the same thing, the first one counts and the others are left out.
type Package struct {
	declcfg.Package
	// Span is the span of the package's own document or, without one, of the first document that names the package.
	document.Span
	// Declared says that the package has an olm.package document.
	Declared     bool
	Channels     []*Channel
	Bundles      []*Bundle
	Deprecations []*Deprecation
	// Lifecycles are the documents that say until when versions of the package are supported. A package should have at most one.
	Lifecycles []*Other
	// Incomplete says that a document that could not be read belongs to this package, or may, because it is in the same area (see area).
	Incomplete bool

	channels   map[string]*Channel
	bundles    map[string]*Bundle
	deprecated map[declcfg.PackageScopedReference]string // the first message for each reference
}

// Channel is a channel and the span of its document.
type Channel struct {
	declcfg.Channel
	document.Span
}

// Bundle is a bundle and the span of its document. A bundle that was read has no payload: properties of the types olm.bundle.object and
// olm.csv.metadata have no value, and there are no objects. Of keeps bundles as they are.
type Bundle struct {
	declcfg.Bundle
	document.Span

	stated  []property.Package
	number  *semver.Version
	content []byte // the document, if no file holds it
	whole   bool   // it has its payload

	undecodable *Undecodable
}

// Deprecation lists the deprecations in a package, with the span of its document.
type Deprecation struct {
	declcfg.Deprecation
	document.Span
}

// Other is a document of a schema that OLM does not define.
type Other struct {
	declcfg.Meta // without its blob
	document.Span
}

// Find returns the package with a name, or nil.
func (c *Catalog) Find(name string) *Package {
	at, found := slices.BinarySearchFunc(c.Packages, name, func(p *Package, name string) int { return strings.Compare(p.Name, name) })
	if !found {
		return nil
	}
	return c.Packages[at]
}

// Named returns the package with a name, or an error that says which package may be meant.
func (c *Catalog) Named(name string) (*Package, error) {
	if p := c.Find(name); p != nil {
		return p, nil
	}
	var names []string
	for _, p := range c.Packages {
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("%s has no package %q; `%s` lists its packages%s", c.Dir, name, escape.Command("berth catalog list packages %s", c.Dir), nearest.Hint(name, names))
}

// FindChannel returns the channel with a name, or nil.
func (p *Package) FindChannel(name string) *Channel { return p.channels[name] }

// FindBundle returns the bundle with a name, or nil.
func (p *Package) FindBundle(name string) *Bundle { return p.bundles[name] }

// Deprecation returns the deprecation message of the package itself (without a name), of a channel or of a bundle, or "" if there is
// none.
func (p *Package) Deprecation(schema, name string) string {
	return p.deprecated[declcfg.PackageScopedReference{Schema: schema, Name: name}]
}

// Lifecycle returns the lifecycle of the package, or nil if OpenShift's console shows none, because there is none, there are
// several, or its fields cannot be decoded. It fails if the document is no longer there.
func (p *Package) Lifecycle() (*lifecycle.Lifecycle, error) {
	if len(p.Lifecycles) != 1 {
		return nil, nil
	}
	d, err := document.Load(p.Lifecycles[0].Span)
	if err != nil {
		return nil, err
	}
	l, _ := lifecycle.Read(d)
	return l, nil
}

// Number returns the version of the bundle, or nil if it has none or an invalid one.
func (b *Bundle) Number() *semver.Version { return b.number }

// Stated returns the bundle's properties of type olm.package that can be decoded. A valid bundle has exactly one.
func (b *Bundle) Stated() []property.Package { return b.stated }

// Undecodable returns what OLM cannot decode in a bundle that was read, or nil.
func (b *Bundle) Undecodable() *Undecodable { return b.undecodable }

// Forget drops all fields but name, image and version from memory. The document still has them.
func (b *Bundle) Forget() {
	b.Properties, b.RelatedImages, b.Objects, b.stated = nil, nil, nil, nil
}

// newBundle returns a bundle that was read from a span.
func newBundle(read declcfg.Bundle, span document.Span) *Bundle {
	b := &Bundle{Bundle: read, Span: span}
	for _, p := range b.Properties {
		var said property.Package
		if p.Type != property.TypePackage || json.Unmarshal(p.Value, &said) != nil {
			continue
		}
		if said.PackageName == b.Package {
			said.PackageName = b.Package // memory holds it once
		}
		b.stated = append(b.stated, said)
		if number, err := semver.Parse(said.Version); err == nil && b.number == nil {
			b.number = &number
		}
	}
	return b
}

// Fault returns a finding about the value at a path of keys (string) and indices (int), in the document at a span.
func Fault(rule findings.Rule, span document.Span, path []any, format string, args ...any) *findings.Finding {
	finding := rule.Finding(span.File, format, args...).At(span.Line, 0)
	if len(path) == 0 {
		return finding
	}
	line, column, err := document.Locate(span, path)
	if err != nil { // the document is gone; a change of the catalog is reported elsewhere
		return finding
	}
	return finding.At(line, column)
}

// EmptyError says that a folder or a file holds no package.
type EmptyError struct {
	dir    string
	isFile bool
}

func (e EmptyError) Error() string {
	if e.isFile {
		return fmt.Sprintf("catalog file %s holds no package; expected documents %s, %s and %s; if it is a template, `berth catalog build` makes a catalog of it",
			e.dir, declcfg.SchemaPackage, declcfg.SchemaChannel, declcfg.SchemaBundle)
	}
	return fmt.Sprintf("catalog folder %s holds no package; expected YAML or JSON files with %s, %s and %s documents, "+
		"such as %s", e.dir, declcfg.SchemaPackage, declcfg.SchemaChannel, declcfg.SchemaBundle,
		filepath.Join(e.dir, "PACKAGE", fileName))
}
