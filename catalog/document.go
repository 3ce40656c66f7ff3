package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"

	yamlnode "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// document is one document of a file, which may hold many.
type document struct {
	file string
	// line is where the document begins, counted from 1.
	line int
	// source is the document as it stands in the file, YAML or JSON.
	source []byte
	// json is the same as JSON; it is source itself where that is JSON.
	json []byte
}

// fault returns a finding about the document as a whole.
func (d document) fault(format string, args ...any) *Finding {
	return d.faultAt(1, format, args...)
}

// faultAt returns a finding at a line within the document, or at the nearest one that it has: decoders
// notice behind the last line that an end is missing, and count as lines what no editor does.
func (d document) faultAt(line int, format string, args ...any) *Finding {
	line = max(1, min(line, lineOf(d.source, len(d.source)-1)))
	return &Finding{File: d.file, Line: d.line + line - 1, Message: fmt.Sprintf(format, args...)}
}

// split cuts a file into its documents. It accepts what OLM's own tools accept: a stream of JSON
// objects, or YAML documents between lines of "---", and decodes them as those tools do. What
// cannot be decoded becomes a finding, and the documents around it are returned all the same.
func split(file string, data []byte) ([]document, []*Finding) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return splitJSON(file, data)
	}
	return splitYAML(file, data, 1)
}

func splitJSON(file string, data []byte) ([]document, []*Finding) {
	var documents []document
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		consumed := int(decoder.InputOffset())
		consumed += len(data[consumed:]) - len(bytes.TrimLeft(data[consumed:], " \t\r\n"))
		begin, rest := lineOf(data, consumed), data[consumed:]
		if len(rest) == 0 {
			return documents, nil
		}
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if err == nil {
			documents = append(documents, document{file: file, line: begin, source: raw, json: raw})
			continue
		}
		// A flow mapping of YAML looks like JSON, and lines of "---" may stand between JSON objects.
		// After two objects without such a line the tools take the file for JSON for good.
		if len(documents) < 2 {
			more, faults := splitYAML(file, rest, begin)
			if len(faults) == 0 && allSingle(more) {
				return append(documents, more...), nil
			}
		}
		fault := document{file: file, line: begin}.fault("malformed JSON: the document that begins here has no end; a bracket or a quote is not closed")
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			fault.Line = lineOf(data, int(syntax.Offset)-1)
			fault.Message = fmt.Sprintf("malformed JSON: %v (in the document that begins at line %d)", err, begin)
		}
		return documents, []*Finding{fault}
	}
}

// allSingle tells whether each of the documents is but one for a YAML decoder. Of several, such as
// JSON objects in a row, the tools read the first and drop the others silently.
func allSingle(documents []document) bool {
	for _, d := range documents {
		var first, second yamlnode.Node
		decoder := yamlnode.NewDecoder(bytes.NewReader(d.source))
		if decoder.Decode(&first) != nil || !errors.Is(decoder.Decode(&second), io.EOF) {
			return false
		}
	}
	return true
}

const separator = "---"

var leadingSeparator = regexp.MustCompile(`^---(\s|$)`)

// splitYAML cuts data, which begins at the given line of the file.
func splitYAML(file string, data []byte, line int) ([]document, []*Finding) {
	var documents []document
	var faults []*Finding
	torn := false // whether the current document's first line is missing
	cut := func(begin int, source []byte) {
		if len(source) == 0 || torn {
			return
		}
		// A separator with nothing before it belongs to the document that follows; that one begins
		// on the next line, if there is any.
		if line, rest, _ := bytes.Cut(source, []byte("\n")); leadingSeparator.Match(line) && len(rest) > 0 {
			begin, source = begin+1, rest
		}
		d := document{file: file, line: begin, source: source}
		var err error
		if d.json, err = yaml.YAMLToJSON(source); err != nil {
			faults = append(faults, d.yamlFault(err))
			return
		}
		documents = append(documents, d)
	}
	begin, start, offset := line, 0, 0 // where the current document begins: its line and its offset
	for text := range bytes.Lines(data) {
		if after, found := bytes.CutPrefix(text, []byte(separator)); found {
			if offset > start {
				cut(begin, data[start:offset])
				begin, start = line+1, offset+len(text)
			}
			rest := bytes.TrimSpace(after)
			if torn = len(rest) > 0 && rest[0] != '#'; torn {
				faults = append(faults, document{file: file, line: line}.fault(
					"malformed YAML: %q follows the separator %s on its line; only a comment may", rest, separator))
			}
		}
		offset += len(text)
		line++
	}
	cut(begin, data[start:])
	return documents, faults
}

// decode reads the document into a value. A field of a wrong type becomes a finding at its line.
func (d document) decode(into any) error {
	err := json.Unmarshal(d.json, into)
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	what := "the document"
	if mismatch.Field != "" {
		what = "field " + mismatch.Field
	}
	return d.faultAt(d.lineAt(mismatch.Offset), "%s is %s; expected %s", what, jsonTypes[mismatch.Value], wanted(mismatch.Type))
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
