// Package document reads the files of a catalog: which those are, the documents that they consist
// of, and what is wrong with them, to the line and column.
//
// It accepts what OLM's own tools accept, which is a stream of JSON objects, or YAML documents
// between lines of "---", and decodes them as those tools do. Files are read as streams and need
// memory for some of their documents, not for all.
package document

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/berth-csi/berth/findings"
)

// The rules that documents are read by.
var (
	Syntax = findings.Rule{ID: "syntax", Severity: findings.Error,
		What: "Every document is well-formed YAML or JSON.",
		Why:  "Neither OLM nor its tools read a catalog in which one is not."}
	Size = findings.Rule{ID: "document-size", Severity: findings.Error,
		What: "No document is longer than 32 MiB.",
		Why:  "OLM takes no bundle above 4 MiB from a catalog; what is this long is something else."}
	Expansion = findings.Rule{ID: "document-expansion", Severity: findings.Error,
		What: "No YAML document becomes more than 16 times as long by its aliases, nor longer than 64 MiB; none is in UTF-16, holds more than half a million values or nests more than 500 levels deep.",
		Why:  "A few kilobytes could fill the memory of whoever reads them."}
	Field = findings.Rule{ID: "field", Severity: findings.Error,
		What: "Every field has the type that OLM expects, and those that must be there are.",
		Why:  "Neither OLM nor its tools read a catalog in which one has not."}
)

// Rules are all rules of this package.
var Rules = []findings.Rule{Syntax, Size, Expansion, Field}

// MaxFaults is how many faults of one document are told. To find the place of one takes another look at all of the
// document, so that the time for all would grow with their number and with its length.
const MaxFaults = 50

// Document is one document of a file, which may hold many.
type Document struct {
	Span
	// Source is the document as it stands in the file, YAML or JSON.
	Source []byte
	// Content is the same as JSON; it is Source itself where that is JSON.
	Content []byte
}

// Span is where a document stands.
type Span struct {
	File string
	// Line is where it begins, counted from 1.
	Line int
	// Indent is how many bytes come before it on that line.
	Indent int
	// Offset and Length are those of its source, in bytes.
	Offset int64
	Length int
	// JSON says that it is part of a stream of JSON objects, and not YAML.
	JSON bool
}

// Fault returns a finding about the document as a whole.
func (d Document) Fault(rule findings.Rule, format string, args ...any) *findings.Finding {
	return rule.Finding(d.File, format, args...).At(d.Line, 0)
}

// FaultAt returns a finding about the value that a path of keys (string) and indices (int) leads to,
// or about the nearest one on the way there.
func (d Document) FaultAt(rule findings.Rule, path []any, format string, args ...any) *findings.Finding {
	line, column := d.Position(path)
	return rule.Finding(d.File, format, args...).At(line, column)
}

// Decode reads the document into a value. A field of a wrong type is a finding at its place.
func (d Document) Decode(into any) error {
	err := json.Unmarshal(d.Content, into)
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	what := "the document"
	if mismatch.Field != "" {
		what = "field " + mismatch.Field
	}
	return d.FaultAt(Field, pathAt(d.Content, mismatch.Offset), "%s is %s; expected %s", what, jsonTypes[mismatch.Value], wanted(mismatch.Type))
}

// jsonTypes are names for what encoding/json found.
var jsonTypes = map[string]string{"array": "an array", "object": "an object", "string": "a string", "number": "a number", "bool": "a boolean"}

// wanted names what a Go type is read from.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string, in quotes where it looks like something else"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a " + t.Kind().String()
}
