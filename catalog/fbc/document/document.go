// Package document lists the files of a catalog, splits them into documents, and reports faults by line and column.
//
// It accepts what OLM's own tools accept, a stream of JSON objects or YAML documents separated by "---" lines, and decodes
// them as those tools do. Files are read as streams, so only a few documents are in memory at a time.
package document

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"

	"github.com/berth-csi/berth/internal/findings"
)

// The rules for documents.
var (
	Syntax = findings.Rule{ID: "syntax", Severity: findings.Error,
		What: "Every document is well-formed YAML or JSON.",
		Why:  "Neither OLM nor its tools read a catalog with a malformed document."}
	Size = findings.Rule{ID: "document-size", Severity: findings.Error,
		What: "No document is longer than 32 MiB.",
		Why:  "OLM accepts no bundle above 4 MiB from a catalog, so a document this long is not a bundle."}
	Expansion = findings.Rule{ID: "document-expansion", Severity: findings.Error,
		What: "No YAML document expands through aliases to more than 16 times its length or more than 64 MiB. None is in UTF-16, holds more than half a million values or nests more than 500 levels deep, and no document of a catalog nests more than 100 levels deep.",
		Why:  "A few kilobytes could exhaust the memory of every reader."}
	Field = findings.Rule{ID: "field", Severity: findings.Error,
		What: "Every field has the type that OLM expects, and no required field is missing.",
		Why:  "Neither OLM nor its tools read a catalog with such a field."}
)

// Rules are all rules of this package.
var Rules = []findings.Rule{Syntax, Size, Expansion, Field}

// MaxFaults is how many faults of one document are reported. Locating a fault means parsing the whole document again, so
// the time for all of them grows with their number times the length of the document.
const MaxFaults = 50

// Document is one document of a file, which may hold many.
type Document struct {
	Span
	// Source is the text of the document in the file, YAML or JSON.
	Source []byte
	// Content is the document as JSON. It is Source itself if that is JSON.
	Content []byte
	// Deep says that values nest deeper than rawjson.MaxDepth.
	Deep bool
}

// Span is the place of a document in a file.
type Span struct {
	File string
	// Line is the line that it begins on, counted from 1.
	Line int
	// Indent is the number of bytes before it on that line.
	Indent int
	// Offset and Length are the place of its source in the file, in bytes.
	Offset int64
	Length int
	// JSON says that it is part of a stream of JSON objects, not YAML.
	JSON bool
}

// Fault returns a finding about the document as a whole.
func (d Document) Fault(rule findings.Rule, format string, args ...any) *findings.Finding {
	return rule.Finding(d.File, format, args...).At(d.Line, 0)
}

// FaultAt returns a finding about the value at a path of keys (string) and indices (int), or the last value on the path
// that exists.
func (d Document) FaultAt(rule findings.Rule, path []any, format string, args ...any) *findings.Finding {
	line, column := d.Position(path)
	return rule.Finding(d.File, format, args...).At(line, column)
}

// Decode decodes the document into a value. A field of the wrong type is a finding at that field.
func (d Document) Decode(into any) error { return d.DecodePart(nil, d.Content, into) }

// DecodePart is like Decode, for the part of the document at a path of keys (string) and indices (int), whose JSON is given.
func (d Document) DecodePart(path []any, part []byte, into any) error {
	err := json.Unmarshal(part, into)
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	what := "the document"
	if mismatch.Field != "" {
		what = "field " + mismatch.Field
	} else if len(path) > 0 {
		what = "this"
	}
	return d.FaultAt(Field, slices.Concat(path, pathAt(part, mismatch.Offset)), "%s is %s; expected %s", what, jsonTypes[mismatch.Value], wanted(mismatch.Type))
}

// jsonTypes names the types that encoding/json reports.
var jsonTypes = map[string]string{"array": "an array", "object": "an object", "string": "a string", "number": "a number", "bool": "a boolean"}

// wanted names the JSON type that decodes into a Go type.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string, in quotes where it looks like something else"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Bool:
		return "true or false"
	}
	return "a " + t.Kind().String()
}
