package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/berth-csi/berth/catalog/fbc/rawjson"
	"github.com/berth-csi/berth/catalog/fbc/rawyaml"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
)

// Documents decodes a section into documents and findings about faults. The documents refer to the section's text and,
// for JSON converted from YAML, to the memory of the buffer, which may be nil.
func (s Section) Documents(buffer []byte) ([]Document, []*findings.Finding) {
	d := Document{Span: s.Span, Source: s.Source}
	if s.JSON {
		if !rawjson.Valid(s.Source) {
			if !json.Valid(s.Source) {
				return s.salvage()
			}
			d.Deep = rawjson.IsDeep(s.Source)
		}
		d.Content = s.Source
		return []Document{d}, nil
	}
	var err error
	var shallow bool
	if d.Content, shallow, err = yamlToJSON(buffer, s.Source); err != nil {
		return nil, []*findings.Finding{d.yamlFault(err)}
	}
	d.Deep = !shallow && rawjson.IsDeep(d.Content)
	if beginsWithBrace(s.Source) && !boundedyaml.IsSingle(s.Source) {
		return nil, []*findings.Finding{d.Fault(Syntax, "malformed YAML: something follows the object of this document, and OLM's tools would drop it; "+
			"if that is a document, put a %s line before it, or remove all such lines from the file", separator)}
	}
	return []Document{d}, nil
}

// Parse decodes all documents of a file.
func Parse(path string, data []byte) ([]Document, []*findings.Finding) {
	var c collector
	c.splitter(path, data).split()
	return c.documents, c.faults
}

// salvage reports the fault of a JSON section, and decodes text after it that looks like further documents: with a
// quote or a bracket missing, the splitter could not separate them.
func (s Section) salvage() ([]Document, []*findings.Finding) {
	fault, offset, _ := Document{Span: s.Span, Source: s.Source}.jsonFault()
	faults := []*findings.Finding{fault}
	begin := nextObject(s.Source, offset)
	if begin < 0 {
		return nil, faults
	}
	c := collector{faults: faults}
	rest := c.splitter(s.File, s.Source[begin:])
	rest.line, rest.offset = s.Line+bytes.Count(s.Source[:begin], newline), s.Offset+int64(begin)
	rest.lineBegin = rest.offset // nextObject returns the beginning of a line
	rest.salvaging = true        // so that no section is salvaged in turn
	rest.json(certain)
	return c.documents, c.faults
}

// collector collects the sections and faults of a splitter.
type collector struct {
	documents []Document
	faults    []*findings.Finding
}

func (c *collector) splitter(path string, data []byte) *splitter {
	return &splitter{
		window: newWindow(bytes.NewReader(data), nil),
		path:   path,
		fault:  func(fault *findings.Finding) { c.faults = append(c.faults, fault) },
		yield: func(section Section) bool {
			section.Source = bytes.Clone(section.Source)
			documents, faults := section.Documents(nil)
			c.documents, c.faults = append(c.documents, documents...), append(c.faults, faults...)
			return true
		},
	}
}

// Load reads the document at a span again. It fails if the document is no longer there.
func Load(span Span) (Document, error) {
	file, err := os.Open(span.File)
	if err != nil {
		return Document{}, err
	}
	defer file.Close()
	source := make([]byte, span.Length)
	if _, err := file.ReadAt(source, span.Offset); err != nil {
		return Document{}, fmt.Errorf("%s:%d: cannot read the document that was here: %w", span.File, span.Line, err)
	}
	documents, faults := Section{Span: span, Source: source}.Documents(nil)
	if len(faults) > 0 {
		return Document{}, faults[0]
	}
	return documents[0], nil
}

// yamlToJSON converts a YAML document to JSON as OLM's tools do. shallow says that the JSON certainly does not nest too deep.
func yamlToJSON(buffer, source []byte) (converted []byte, shallow bool, err error) {
	if !bytes.HasSuffix(source, newline) { // OLM's tools read it by lines: a block scalar at the end of a file ends with a line break
		source = append(slices.Clip(source), '\n')
	}
	if converted, ok := rawyaml.AppendJSON(buffer[:0], source); ok {
		return converted, true, nil
	}
	converted, err = boundedyaml.ToJSON(source)
	return converted, false, err
}

// beginsWithBrace reports whether a YAML document begins with a brace after comments. Such a document may be meant as a
// stream of JSON objects.
func beginsWithBrace(source []byte) bool {
	for line := range bytes.Lines(source) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return line[0] == '{'
		}
	}
	return false
}
