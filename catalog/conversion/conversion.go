// Package conversion converts a catalog to a template: a file that people maintain, and that builds the same catalog.
package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/template/basic"
	"github.com/operator-framework/operator-registry/alpha/template/substitutes"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
)

// Kind is a kind of templates.
type Kind string

const (
	// Basic is opm's olm.template.basic, with the documents of the catalog, and only the image of each bundle.
	Basic Kind = "basic"
	// Substitutes is opm's olm.template.substitutes, with all documents of the catalog, and no substitutions.
	Substitutes Kind = "substitutes"
	// Berth is the template of one package as catalog/build reads it.
	Berth Kind = "berth"
)

// Kinds are all kinds of templates.
var Kinds = []Kind{Basic, Substitutes, Berth}

// Formats are the formats of templates.
var Formats = []string{"json", "yaml"}

// ruleImage is the rule for catalogs that are converted to a template.
var ruleImage = findings.Rule{ID: "convert-image", Severity: findings.Error,
	What: "Every bundle of the catalog has an image.",
	Why:  "A template only says which image a bundle comes from."}

// Template converts the catalog in a folder, or some of its packages, to a template in a format. It also returns what the template
// cannot express. If documents cannot be read, it fails with all their faults.
func Template(ctx context.Context, dir string, kind Kind, format string, packages ...string) (text []byte, lost []string, err error) {
	var kept kept
	c, faults, err := fbc.ReadAndKeep(ctx, dir, func(d document.Document) error { return kept.add(d, kind) })
	if err != nil {
		return nil, nil, err
	}
	for _, name := range packages {
		if _, err := c.Named(name); err != nil {
			return nil, nil, err
		}
	}
	wanted := func(name string) bool { return len(packages) == 0 || slices.Contains(packages, name) }
	c.Packages = slices.DeleteFunc(c.Packages, func(p *fbc.Package) bool { return !wanted(p.Name) })
	if kind != Substitutes {
		faults = append(faults, withoutImage(c)...)
	}
	if len(faults) > 0 {
		return nil, nil, joined(faults)
	}
	var template any
	switch kind {
	case Berth:
		return berth(c, format)
	case Basic:
		template = basic.BasicTemplateData{Schema: "olm.template.basic", Entries: kept.metas(c.Files, wanted)}
	default:
		template = substitutes.SubstitutesTemplateData{Schema: "olm.template.substitutes", Entries: kept.metas(c.Files, wanted), Substitutions: []substitutes.Substitute{}}
	}
	text, err = json.MarshalIndent(template, "", "    ")
	if err != nil {
		return nil, nil, err
	}
	if format == "json" {
		return append(text, '\n'), nil, nil
	}
	text, err = boundedyaml.FromJSON(text)
	return append([]byte("---\n"), text...), nil, err
}

func joined(faults []*findings.Finding) error {
	var all []error
	for _, f := range faults {
		all = append(all, f)
	}
	return errors.Join(all...)
}

// withoutImage reports the bundles that carry their objects and have no image.
func withoutImage(c *fbc.Catalog) (faults []*findings.Finding) {
	for _, p := range c.Packages {
		of := slices.DeleteFunc(slices.Clone(p.Bundles), func(b *fbc.Bundle) bool { return b.Image != "" })
		switch len(of) {
		case 0:
		case 1:
			faults = append(faults, fbc.Fault(ruleImage, of[0].Span, nil, "bundle %q has no image, and carries its objects instead; push its image with berth bundle image, and name that", of[0].Name).In(p.Name))
		default:
			faults = append(faults, fbc.Fault(ruleImage, of[0].Span, nil, "bundle %q and %d more have no image, and carry their objects instead; push their images with berth bundle image, and name those",
				of[0].Name, len(of)-1).In(p.Name))
		}
	}
	return faults
}

// kept holds documents of a catalog as they are in a template.
type kept struct {
	mu  sync.Mutex
	all []keptDocument
}

type keptDocument struct {
	document.Span
	meta *declcfg.Meta
}

// add keeps a document. The reader of the catalog reports documents that cannot be decoded or have no schema.
func (k *kept) add(d document.Document, kind Kind) error {
	if kind == Berth {
		return nil
	}
	meta := &declcfg.Meta{}
	if json.Unmarshal(d.Content, meta) != nil || meta.Schema == "" {
		return nil
	}
	if meta.Schema == declcfg.SchemaBundle && kind == Basic {
		var b declcfg.Bundle
		if json.Unmarshal(meta.Blob, &b) != nil {
			return nil
		}
		var err error
		if meta.Blob, err = json.Marshal(declcfg.Bundle{Schema: b.Schema, Image: b.Image}); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, keptDocument{d.Span, meta})
	return nil
}

// metas returns the documents of the wanted packages, in the order of files and lines.
func (k *kept) metas(files document.Files, wanted func(pkg string) bool) (all []*declcfg.Meta) {
	number := map[string]int{}
	for i, f := range files {
		number[f.Path] = i
	}
	slices.SortFunc(k.all, func(a, b keptDocument) int {
		if a.File != b.File {
			return number[a.File] - number[b.File]
		}
		return int(a.Offset - b.Offset)
	})
	for _, d := range k.all {
		pkg := d.meta.Package
		if d.meta.Schema == declcfg.SchemaPackage {
			pkg = d.meta.Name
		}
		if wanted(pkg) {
			all = append(all, d.meta)
		}
	}
	return all
}

// berth returns a template of Berth, and what that cannot express. Its entries give all fields, because the ClusterServiceVersions
// may say something else.
func berth(c *fbc.Catalog, format string) (text []byte, lost []string, err error) {
	if len(c.Packages) != 1 {
		var names []string
		for _, p := range c.Packages {
			names = append(names, p.Name)
		}
		return nil, nil, fmt.Errorf("%s has %d packages, %s, and a template of Berth describes one; name it", c.Dir, len(names), strings.Join(names, ", "))
	}
	p := c.Packages[0]
	var bundles, channels, deprecations []any
	for _, b := range p.Bundles {
		bundles = append(bundles, map[string]any{"image": b.Image})
	}
	for _, channel := range p.Channels {
		var entries []any
		for _, e := range channel.Entries {
			entries = append(entries, map[string]any{"name": e.Name, "replaces": e.Replaces, "skips": append([]string{}, e.Skips...), "skipRange": e.SkipRange})
		}
		channels = append(channels, map[string]any{"name": channel.Name, "entries": entries})
		if len(channel.Properties) > 0 {
			lost = append(lost, fmt.Sprintf("the properties of channel %q", channel.Name))
		}
	}
	for _, d := range p.Deprecations {
		for _, e := range d.Entries {
			deprecations = append(deprecations, deprecated(p.Name, e))
		}
	}
	if p.Icon != nil {
		lost = append(lost, "the icon; the package gets the icon of its default channel's head, unless the field icon names a file")
	}
	for _, o := range c.Others {
		if o.Package == p.Name {
			lost = append(lost, fmt.Sprintf("a document of schema %s", o.Schema))
		}
	}
	// In the order in which people write them.
	parts := []map[string]any{{"schema": "berth.template"}, {"package": p.Name}, {"defaultChannel": p.DefaultChannel}, {"description": p.Description},
		{"bundles": bundles}, {"channels": channels}, {"deprecations": deprecations}}
	parts = slices.DeleteFunc(parts, func(part map[string]any) bool {
		return part["description"] == "" || part["deprecations"] != nil && len(deprecations) == 0
	})
	text, err = inOrder(parts, format)
	return text, lost, err
}

// deprecated returns a deprecation in the form of Berth's template.
func deprecated(pkg string, e declcfg.DeprecationEntry) map[string]any {
	switch e.Reference.Schema {
	case declcfg.SchemaPackage:
		return map[string]any{"package": pkg, "message": e.Message}
	case declcfg.SchemaChannel:
		return map[string]any{"channel": e.Reference.Name, "message": e.Message}
	}
	return map[string]any{"bundle": e.Reference.Name, "message": e.Message}
}

// inOrder returns an object with its fields in a given order. Each part has one field.
func inOrder(parts []map[string]any, format string) ([]byte, error) {
	var text bytes.Buffer
	for i, part := range parts {
		if format == "yaml" {
			lines, err := boundedyaml.Marshal(part)
			if err != nil {
				return nil, err
			}
			text.Write(lines)
			continue
		}
		field, err := json.MarshalIndent(part, "", "    ")
		if err != nil {
			return nil, err
		}
		text.WriteString(map[bool]string{true: "{\n", false: ",\n"}[i == 0])
		text.Write(bytes.TrimSuffix(bytes.TrimPrefix(field, []byte("{\n")), []byte("\n}")))
	}
	if format == "json" {
		text.WriteString("\n}\n")
	}
	return text.Bytes(), nil
}
