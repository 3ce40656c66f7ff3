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
	"sort"
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

// Write renders folders and images, each of a catalog or of a bundle. Packages are sorted by name. The package's own document comes
// first, then its channels and bundles by name, then everything else. Write fails with all faults if a document cannot be read, but does
// not check whether documents fit together. Catalogs may be larger than memory. The findings are warnings about parts of bundles that
// OLM's tools leave out, and about documents that opm renders although it finds them invalid.
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

// rendered are the rules whose faults do not keep opm from rendering documents that it can decode.
var rendered = []string{fbc.Duplicate.ID, fbc.Object.ID, fbc.Schema.ID, document.Field.ID}

// maxRefused limits the errors in memory about documents that opm does not render: a document can have only two bytes, its error hundreds.
const maxRefused = 10_000

// read renders the documents of a catalog's folder and adds them to the parts. Faults that do not keep opm from rendering the catalog
// become findings.
func (r *renderer) read(ctx context.Context, dir string) error {
	var mu sync.Mutex
	var parts []part
	var refused []error
	_, faults, err := fbc.ReadAndKeep(ctx, dir, func(d document.Document) error {
		on, _ := r.free.Get().(*scratch)
		if on == nil {
			on = &scratch{}
		}
		defer r.free.Put(on)
		p, text, err := r.document(d.Content, on)
		if err == nil {
			err = r.store.Keep(d.Span, text)
			if err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			if p.span = d.Span; p.pkg != "" || p.kind == kindOther { // opm leaves out other documents without a package
				parts = append(parts, p)
			}
		case len(refused) < maxRefused:
			refused = append(refused, fmt.Errorf("%s:%d: %w", d.File, d.Line, err))
		}
		return nil
	})
	if empty := (fbc.EmptyError{}); err != nil && (!errors.As(err, &empty) || len(parts) == 0) {
		return err
	}
	byPlace(parts)
	isRendered, err := r.rendersAll(parts, faults)
	switch {
	case err != nil:
		return err
	case len(faults) > 0 && (len(refused) > 0 || !isRendered):
		return joined(faults)
	case len(refused) > 0:
		return errors.Join(refused...)
	}
	for _, fault := range faults {
		fault.Severity = findings.Warning
	}
	r.found, r.parts = append(r.found, faults...), append(r.parts, parts...)
	return nil
}

// byPlace sorts parts by file and place, the order in which opm reads the documents of a file.
func byPlace(parts []part) {
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(strings.Compare(a.span.File, b.span.File), cmp.Compare(a.span.Offset, b.span.Offset))
	})
}

// rendersAll reports whether opm renders the documents of a catalog with faults. Bundles in the usual form were rendered without
// decoding, so those in files with faults are decoded here.
func (r *renderer) rendersAll(parts []part, faults []*findings.Finding) (bool, error) {
	files := map[string]bool{}
	for _, fault := range faults {
		if !slices.Contains(rendered, fault.Rule) {
			return false, nil
		}
		files[fault.File] = fault.Rule != fbc.Duplicate.ID || files[fault.File]
	}
	for _, p := range parts {
		if p.kind != kindBundle || !files[p.span.File] {
			continue
		}
		text, err := r.store.Load(nil, p.span)
		if err == nil && r.options.Output == "yaml" {
			text, err = boundedyaml.ToJSON(text)
		}
		if err != nil {
			return false, err
		}
		if _, _, err := decoded(text); err != nil {
			return false, nil // a fault says more about it
		}
	}
	return true, nil
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

// sort brings the parts into order. Like opm, it sorts channels and bundles with sort.Slice, because another sort would order equal names
// differently, and keeps the order of documents that belong to no package.
func (r *renderer) sort() {
	slices.SortStableFunc(r.parts, func(a, b part) int {
		return cmp.Or(last(a.pkg)-last(b.pkg), strings.Compare(a.pkg, b.pkg), a.kind-b.kind)
	})
	for rest := r.parts; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].pkg == rest[0].pkg && rest[n].kind == rest[0].kind {
			n++
		}
		some := rest[:n]
		byName := func(i, j int) bool { return some[i].name < some[j].name }
		switch {
		case some[0].kind == kindOther && some[0].pkg != "":
			sort.SliceStable(some, byName)
		case some[0].kind == kindChannel, some[0].kind == kindBundle:
			sort.Slice(some, byName)
		}
		rest = rest[n:]
	}
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

// document renders a document in the renderer's format. The text is valid until the scratch is used again.
func (r *renderer) document(content []byte, on *scratch) (part, []byte, error) {
	b, err := r.migrated(content)
	if err != nil {
		return part{}, nil, err
	}
	if b != nil {
		text, err := r.encode(*b)
		return part{pkg: b.Package, kind: kindBundle, name: b.Name}, text, err
	}
	p, text, ok := on.bundle(content)
	if !ok {
		if p, text, err = decoded(content); err != nil {
			return p, nil, err
		}
	}
	if r.options.Output != "yaml" {
		return p, text, nil
	}
	if text, err = boundedyaml.FromJSON(text); err != nil {
		return p, nil, err
	}
	return p, append([]byte("---\n"), text...), nil
}

// typed are the schemas of documents that are decoded into a type of their own. The order of keys in their JSON does not
// matter.
var typed = []string{declcfg.SchemaPackage, declcfg.SchemaChannel, declcfg.SchemaBundle, declcfg.SchemaDeprecation}

// decoded renders a document by decoding it into operator-registry's types.
func decoded(content []byte) (p part, text []byte, err error) {
	meta, ok := fbc.ScanMeta(content)
	if ok && slices.Contains(typed, meta.Schema) {
		meta.Blob = content // so that it is decoded only once
	} else if err := json.Unmarshal(content, &meta); err != nil {
		return p, nil, err
	}
	config, err := declcfg.LoadSlice([]*declcfg.Meta{&meta})
	if err != nil {
		return p, nil, err
	}
	p, value := only(config)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", strings.Repeat(" ", indent))
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(value)
	return p, out.Bytes(), err
}

// only returns the only document of a catalog.
func only(config *declcfg.DeclarativeConfig) (part, any) {
	for _, p := range config.Packages {
		return part{pkg: p.Name, kind: kindPackage}, p
	}
	for _, c := range config.Channels {
		return part{pkg: c.Package, kind: kindChannel, name: c.Name}, c
	}
	for _, b := range config.Bundles {
		b.Properties = payloadLast(b.Properties)
		sortImages(b.RelatedImages)
		return part{pkg: b.Package, kind: kindBundle, name: b.Name}, b
	}
	for _, d := range config.Deprecations {
		return part{pkg: d.Package, kind: kindDeprecation}, d
	}
	return part{pkg: config.Others[0].Package, kind: kindOther, name: config.Others[0].Schema}, config.Others[0]
}
