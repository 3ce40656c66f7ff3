// Package render writes catalogs and bundles in canonical form, as JSON or YAML: the same bytes as "opm render", except for
// numbers that would lose digits there, and for what ForLog escapes.
package render

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
)

// Formats are the formats of Write: a stream of JSON objects, or of YAML documents.
var Formats = []string{"json", "yaml"}

// writeSize is the least number of bytes written at once.
const writeSize = 1 << 20

// indent is the number of spaces per level of JSON.
const indent = 4

// Options are the options of Write and Split.
type Options struct {
	// Output is one of Formats.
	Output string
	// Level is the format of bundles with an image. By default, bundles of a catalog keep their format, and others are Described.
	Level Format
	// Image makes the pull specs of bundles in folders. Without it they have no image, and carry their objects.
	Image *ImageTemplate
	// AsWritten keeps a bundle's pull spec as the source gives it, like opm, instead of resolving it to a digest.
	AsWritten bool
}

// Write renders folders and images, each of a catalog or of a bundle. Packages are sorted by name, and each has its own document, then
// its channels and bundles by name, then everything else. Write fails with all faults if a document cannot be read, but does not
// check whether documents fit together. Catalogs may be larger than memory. Its findings are warnings about parts of bundles that
// OLM's tools leave out.
func Write(ctx context.Context, w io.Writer, o Options, sources []string) (found []*findings.Finding, err error) {
	r, err := read(ctx, o, sources)
	if err != nil {
		return r.found, errors.Join(err, r.close())
	}
	defer func() { err = errors.Join(err, r.close()) }()
	r.sort()
	return r.found, r.write(w, r.parts)
}

// read renders all sources. The caller has to close the renderer.
func read(ctx context.Context, o Options, sources []string) (r *renderer, err error) {
	r = &renderer{options: o}
	if r.store, err = document.NewStore(); err != nil {
		return r, err
	}
	var faults []error
	for _, text := range sources {
		if err := r.open(ctx, text); err != nil {
			faults = append(faults, err)
		}
	}
	return r, errors.Join(faults...)
}

// close deletes the store.
func (r *renderer) close() error {
	if r.store == nil {
		return nil
	}
	return r.store.Close()
}

// renderer holds rendered documents.
type renderer struct {
	options Options
	store   *document.Store
	parts   []part
	found   []*findings.Finding
	free    sync.Pool // of *scratch
}

// scratch is memory for rendering a document, reused for the next one.
type scratch struct{ text, rest, payload []byte }

// part is a rendered document with its sort key.
type part struct {
	pkg  string
	kind int
	name string
	span document.Span // in the store, if text is nil
	text []byte
}

// The kinds of documents, in the order that a rendered package has them.
const (
	kindPackage = iota
	kindChannel
	kindBundle
	kindOther
	kindDeprecation
)

// open renders the documents of a source and adds them to the parts.
func (r *renderer) open(ctx context.Context, text string) (err error) {
	opened, err := source.OpenAny(ctx, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	switch {
	case opened.Bundle != nil:
		reference := opened.Bundle.Reference
		if r.options.AsWritten {
			reference = strings.TrimPrefix(text, source.InRegistry)
		}
		b, err := Image(reference, opened.Bundle.Files)
		if err != nil {
			return err
		}
		return r.add(b, "image "+opened.Bundle.Reference)
	case registryv1.IsFolder(opened.Dir):
		b, err := FolderAs(opened.Dir, r.options.Image)
		if err != nil {
			return err
		}
		return r.add(b, "folder "+opened.Dir)
	}
	return opened.Named(r.read(ctx, opened.Dir))
}

// read renders the documents of a catalog's folder and adds them to the parts.
func (r *renderer) read(ctx context.Context, dir string) error {
	c, faults, err := fbc.ReadAndKeep(ctx, dir, func(d document.Document) error {
		on, _ := r.free.Get().(*scratch)
		if on == nil {
			on = &scratch{}
		}
		defer r.free.Put(on)
		if b := r.migrated(d.Content); b != nil {
			text, err := r.encode(*b)
			if err != nil {
				return fmt.Errorf("%s:%d: %w", d.File, d.Line, err)
			}
			return r.store.Keep(d.Span, text)
		}
		text, err := r.render(d.Content, on)
		if err != nil {
			return nil // its faults are reported below
		}
		return r.store.Keep(d.Span, text)
	})
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return joined(faults)
	}
	for _, p := range c.Packages {
		if p.Declared {
			r.parts = append(r.parts, part{pkg: p.Name, kind: kindPackage, span: p.Span})
		}
		for _, c := range p.Channels {
			r.parts = append(r.parts, part{pkg: p.Name, kind: kindChannel, name: c.Name, span: c.Span})
		}
		for _, b := range p.Bundles {
			r.parts = append(r.parts, part{pkg: p.Name, kind: kindBundle, name: b.Name, span: b.Span})
		}
		for _, d := range p.Deprecations {
			r.parts = append(r.parts, part{pkg: p.Name, kind: kindDeprecation, span: d.Span})
		}
	}
	for _, o := range c.Others {
		r.parts = append(r.parts, part{pkg: o.Package, kind: kindOther, name: o.Schema, span: o.Span})
	}
	return nil
}

func joined(faults []*findings.Finding) error {
	var all []error
	for _, fault := range faults {
		all = append(all, fault)
	}
	return errors.Join(all...)
}

// add adds a bundle to the parts.
func (r *renderer) add(b *Bundle, from string) error {
	r.found = append(r.found, b.Found...)
	rendered, err := b.In(cmp.Or(r.options.Level, Described))
	if err != nil {
		return err
	}
	text, err := r.encode(rendered)
	if err != nil {
		return fmt.Errorf("bundle %s: %w", from, err)
	}
	r.parts = append(r.parts, part{pkg: b.Package, kind: kindBundle, name: b.Name, text: text})
	return nil
}

// encode renders a bundle that Berth made, whose properties have their keys in opm's order.
func (r *renderer) encode(b declcfg.Bundle) ([]byte, error) {
	var text bytes.Buffer
	if r.options.Output == "yaml" {
		err := WriteYAML(b, &text)
		return text.Bytes(), err
	}
	err := declcfg.WriteJSON(declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{b}}, &text)
	return text.Bytes(), err
}

// sort brings the parts into order.
func (r *renderer) sort() {
	slices.SortStableFunc(r.parts, func(a, b part) int {
		return cmp.Or(last(a.pkg)-last(b.pkg), strings.Compare(a.pkg, b.pkg), a.kind-b.kind, strings.Compare(a.name, b.name))
	})
}

// write writes parts.
func (r *renderer) write(w io.Writer, parts []part) error {
	out := make([]byte, 0, 2*writeSize)
	for _, p := range parts {
		if p.text != nil {
			out = append(out, p.text...)
		} else {
			var err error
			if out, err = r.store.Load(out, p.span); err != nil {
				return err
			}
		}
		if len(out) >= writeSize {
			if _, err := w.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
	_, err := w.Write(out)
	return err
}

// last sorts documents without a package after all others.
func last(pkg string) int {
	if pkg == "" {
		return 1
	}
	return 0
}

// render renders a document in the renderer's format. The text is valid until the scratch is used again.
func (r *renderer) render(content []byte, on *scratch) ([]byte, error) {
	text, ok := on.bundle(content)
	if !ok {
		var err error
		if text, err = decoded(content); err != nil {
			return nil, err
		}
	}
	if r.options.Output != "yaml" {
		return text, nil
	}
	text, err := boundedyaml.FromJSON(text)
	if err != nil {
		return nil, err
	}
	return append([]byte("---\n"), text...), nil
}

// typed are the schemas of documents that are decoded into a type of their own. The order of keys in their JSON does not
// matter.
var typed = []string{declcfg.SchemaPackage, declcfg.SchemaChannel, declcfg.SchemaBundle, declcfg.SchemaDeprecation}

// decoded renders a document by decoding it into operator-registry's types.
func decoded(content []byte) ([]byte, error) {
	meta, ok := fbc.ScanMeta(content)
	if ok && slices.Contains(typed, meta.Schema) {
		meta.Blob = content // so that it is decoded only once
	} else if err := json.Unmarshal(content, &meta); err != nil {
		return nil, err
	}
	config, err := declcfg.LoadSlice([]*declcfg.Meta{&meta})
	if err != nil {
		return nil, err
	}
	for _, b := range config.Bundles {
		b.Properties = payloadLast(b.Properties)
		sortImages(b.RelatedImages)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", strings.Repeat(" ", indent))
	encoder.SetEscapeHTML(false)
	for _, value := range values(config) {
		if err := encoder.Encode(value); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// values are the documents of a catalog.
func values(config *declcfg.DeclarativeConfig) (all []any) {
	for _, p := range config.Packages {
		all = append(all, p)
	}
	for _, c := range config.Channels {
		all = append(all, c)
	}
	for _, b := range config.Bundles {
		all = append(all, b)
	}
	for _, d := range config.Deprecations {
		all = append(all, d)
	}
	for _, o := range config.Others {
		all = append(all, o)
	}
	return all
}
