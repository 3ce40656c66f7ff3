package fbc

import (
	"encoding/json"
	"fmt"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
)

// Parse makes a catalog from documents that do not come from a folder. It checks each document as Read does, and returns
// findings that name the origin instead of a file and count documents instead of lines. The catalog keeps the documents of
// bundles with a payload in memory, for Details.
func Parse(origin string, config *declcfg.DeclarativeConfig) (*Catalog, []*findings.Finding, error) {
	p := parser{origin: origin, scanner: scanner{keep: func(document.Document) error { return nil }}}
	for _, d := range config.Packages {
		p.add(d)
	}
	for _, d := range config.Channels {
		p.add(d)
	}
	for _, d := range config.Bundles {
		p.add(d)
	}
	for _, d := range config.Deprecations {
		p.add(d)
	}
	if p.err != nil {
		return nil, nil, fmt.Errorf("%s: %w", origin, p.err)
	}
	c, faults := assemble(origin, p.entries)
	return c, faults, nil
}

// noPayload stands for the document of a bundle that has no payload to keep.
var noPayload = []byte("{}")

// parser decodes documents that are in memory.
type parser struct {
	scanner
	origin  string
	entries []entry
	number  int
	err     error
}

func (p *parser) add(value any) {
	if p.err != nil {
		return
	}
	p.number++
	var content []byte
	if content, p.err = json.Marshal(value); p.err != nil {
		return
	}
	section := document.Section{Span: document.Span{File: p.origin, Line: p.number, Length: len(content), JSON: true}, Source: content}
	entries, err := p.decode(section)
	if err != nil {
		p.err = err
		return
	}
	for _, e := range entries {
		if e.bundle != nil {
			e.content = noPayload
			if hasPayload(e.bundle) {
				e.content = content
			}
		}
		p.entries = append(p.entries, e)
	}
}

// hasPayload reports whether a bundle has properties that a catalog leaves out until Details reads them.
func hasPayload(b *declcfg.Bundle) bool {
	for _, p := range b.Properties {
		if IsPayload(p.Type) {
			return true
		}
	}
	return false
}
