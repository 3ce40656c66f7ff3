package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"sync"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
)

// Locating a fault means parsing the document again. Only faulty documents take that time.

// place converts an offset in the source to a line and column in the file. Decoders report a missing end
// after the last line; that counts as the end of the last line.
func (d Document) place(offset int) (line, column int) {
	line, column = boundedyaml.Position(d.Source, min(offset, len(bytes.TrimRight(d.Source, "\r\n"))))
	if line == 1 {
		column += d.Indent
	}
	return d.Line + line - 1, column
}

// jsonFault returns the fault of malformed JSON and its offset. It returns false if the JSON is only incomplete.
func (d Document) jsonFault() (fault *findings.Finding, offset int, ended bool) {
	err := json.NewDecoder(bytes.NewReader(d.Source)).Decode(&json.RawMessage{})
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		offset = int(syntax.Offset) - 1
		line, column := d.place(offset)
		return Syntax.Finding(d.File, "malformed JSON: %v (in the document that begins at line %d)", err, d.Line).At(line, column), offset, true
	case err == nil: // but it is not an object
		return d.Fault(Field, "the document is not an object, as all documents of a catalog are"), 0, true
	}
	line, column := d.place(0)
	return Syntax.Finding(d.File, "malformed JSON: the document that begins here has no end; a bracket or a quote is not closed").
		At(line, column), 0, false
}

// yamlFault returns the fault of YAML that a decoder rejected.
func (d Document) yamlFault(err error) *findings.Finding {
	if refusal := (*boundedyaml.Refusal)(nil); errors.As(err, &refusal) {
		if refusal.Line == 0 {
			return d.Fault(Expansion, "%s", refusal.Message)
		}
		return Expansion.Finding(d.File, "%s", refusal.Message).At(d.inFile(refusal.Line, refusal.Column))
	}
	offset, message := boundedyaml.Fault(d.Source, err)
	line, column := d.place(offset)
	return Syntax.Finding(d.File, "malformed YAML: %s", message).At(line, column)
}

// Position returns the line and column of the value at a path of keys (string) and indices (int), or of the last value on
// the path that exists. The position of a value with a key is the position of the key.
func (d Document) Position(path []any) (line, column int) { return d.Positions()(path) }

// Positions returns a function that is like Position, and parses the document only once. It is for one goroutine.
func (d Document) Positions() func(path []any) (line, column int) {
	locate := sync.OnceValue(func() *locator { return newLocator(d) })
	return func(path []any) (line, column int) { return locate().position(path) }
}

// inFile converts a line and column in the source, as a YAML decoder reports them, to a line and column in the file.
func (d Document) inFile(line, column int) (inFile, inLine int) {
	return d.place(boundedyaml.Offset(d.Source, line, column))
}

// child returns a value of a mapping or a sequence, and the node whose position counts as the value's.
func child(node *boundedyaml.Node, step any) (value, place *boundedyaml.Node) {
	switch step := step.(type) {
	case int:
		if node.Kind == boundedyaml.SequenceNode && step < len(node.Content) {
			return node.Content[step], node.Content[step]
		}
	case string:
		for i := 0; node.Kind == boundedyaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				value, place = node.Content[i+1], node.Content[i]
			}
		}
	}
	return value, place
}

// pathAt returns the path to the first value in a JSON document that ends at or after an offset, or has its opening bracket there.
// encoding/json reports offsets just after a wrong value, or just inside a wrong object or array.
func pathAt(document []byte, offset int64) []any {
	decoder := json.NewDecoder(bytes.NewReader(document))
	var path []any // of the next value; nil for a key that was not read yet
	for {
		token, err := decoder.Token()
		if err != nil {
			return path
		}
		last := len(path) - 1
		switch {
		case token == json.Delim('}') || token == json.Delim(']'):
			path = path[:last]
		case last >= 0 && path[last] == nil:
			path[last] = token
			continue
		case decoder.InputOffset() >= offset:
			return path
		case token == json.Delim('{'):
			path = append(path, nil)
			continue
		case token == json.Delim('['):
			path = append(path, 0)
			continue
		}
		// A value ended. The next index or the next key follows.
		if last = len(path) - 1; last < 0 {
			return path
		}
		if index, isIndex := path[last].(int); isIndex {
			path[last] = index + 1
		} else {
			path[last] = nil
		}
	}
}
