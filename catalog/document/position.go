package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	yamlnode "go.yaml.in/yaml/v3"

	"github.com/berth-csi/berth/findings"
)

// Finding out where a fault stands costs a second look at the document. Only faulty ones pay for it.

// place returns the line and column, in the file, of the byte at an offset of the source. Decoders
// notice behind the last line that an end is missing; that counts as the end of the last line.
func (d Document) place(offset int) (line, column int) {
	offset = max(0, min(offset, len(bytes.TrimRight(d.Source, "\r\n"))))
	before := d.Source[:offset]
	begin := bytes.LastIndexByte(before, '\n') + 1
	column = 1 + utf8.RuneCount(before[begin:])
	if begin == 0 {
		column += d.Indent
	}
	return d.Line + bytes.Count(before, newline), column
}

// yamlBreak matches what ends a line for YAML, which is more than what does in a file.
var yamlBreak = regexp.MustCompile(`\r\n|[\r\n\x{85}\x{2028}\x{2029}]`)

// lineBegin returns the offset of a line of the source, counted from 1 as YAML does, or of its last one.
func (d Document) lineBegin(line int) int {
	begin := 0
	for _, end := range yamlBreak.FindAllIndex(d.Source, max(0, line-1)) {
		if end[1] < len(d.Source) {
			begin = end[1]
		}
	}
	return begin
}

// jsonFault finds what is wrong with JSON that is malformed, and the offset of that. It returns false
// if all that is wrong is that the JSON does not end.
func (d Document) jsonFault() (fault *findings.Finding, offset int, ended bool) {
	err := json.NewDecoder(bytes.NewReader(d.Source)).Decode(&json.RawMessage{})
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		offset = int(syntax.Offset) - 1
		line, column := d.place(offset)
		return Syntax.Finding(d.File, "malformed JSON: %v (in the document that begins at line %d)", err, d.Line).At(line, column), offset, true
	case err == nil: // but it is no object
		return d.Fault(Field, "the document is not an object, as all documents of a catalog are"), 0, true
	}
	line, column := d.place(0)
	return Syntax.Finding(d.File, "malformed JSON: the document that begins here has no end; a bracket or a quote is not closed").
		At(line, column), 0, false
}

var yamlError = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:line (\d+): )?`)

// parserError matches what the YAML parser says, as opposed to the scanner below it.
var parserError = regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key)|` +
	`^found (duplicate %|incompatible YAML|undefined tag)`)

// openBracket matches what the parser says, and openQuote and the like what the scanner says, of what has no end. They say
// it where they give up.
var (
	openBracket = regexp.MustCompile(`^did not find expected ',' or`)
	openQuote   = regexp.MustCompile(`^found unexpected (end of stream|document indicator)|^could not find expected ':'`)
)

// yamlFault places the error of a YAML decoder. What the decoder itself says of lines is of little
// use: it counts from 1 in what its scanner refuses, from 0 in what its parser refuses, and names no
// line for the first one and for what it refuses later. It says nothing of columns.
func (d Document) yamlFault(err error) *findings.Finding {
	line, message := yamlErrorLine(err)
	// The newer decoder tells where what has no end began, counting likewise.
	var parsed yamlnode.Node
	begin, _ := yamlErrorLine(yamlnode.Unmarshal(d.Source, &parsed))
	offset := -1
	switch {
	case parserError.MatchString(message):
		line++
	case openBracket.MatchString(message):
		line = min(line, begin) + 1
	case openQuote.MatchString(message) && begin > 0:
		line = min(line, begin)
	case strings.HasPrefix(message, "control characters"), strings.Contains(message, "UTF-8"):
		offset = firstUnreadable(d.Source)
	case strings.HasPrefix(message, "unknown anchor"):
		name := strings.Trim(strings.Fields(message)[2], "'")
		alias := regexp.MustCompile(`(?m)(?:^|[:?,\[{-])\s*(\*` + regexp.QuoteMeta(name) + `)(?:$|[\s,\]}])`)
		if match := alias.FindSubmatchIndex(d.Source); match != nil { // else the text begins it
			offset = match[2]
		}
	case strings.HasPrefix(message, "invalid map key"), strings.HasPrefix(message, "unsupported map key"):
		message = "a key must be plain text, and not null, a mapping or a list; {{ }} of a template that was not filled in reads like one"
		if key := unusableKey(&parsed); key != nil {
			offset = d.offset(key.Line, key.Column)
		}
	}
	if offset < 0 {
		offset = d.suspect(d.lineBegin(line), message)
	}
	line, column := d.place(offset)
	return Syntax.Finding(d.File, "malformed YAML: %s", message).At(line, column)
}

// suspects match what, in a line, the YAML decoder's message is about. Where none matches, it is the
// first word of the line.
var suspects = []struct{ message, pattern *regexp.Regexp }{
	{regexp.MustCompile(`^mapping values are not allowed`), regexp.MustCompile(`:(?:[^:]|:\S)*?(:)(?:\s|$)`)},
	{regexp.MustCompile(`cannot start any token`), regexp.MustCompile("(?:^|[\\s,\\[{])([@`%|>])")},
	{regexp.MustCompile(`tab character`), regexp.MustCompile("(\t)")},
	{regexp.MustCompile(`unexpected end of stream`), regexp.MustCompile(`(["'])`)},
	{openBracket, regexp.MustCompile(`([\[{])`)},
}

// suspect returns the offset of what a message is about, in the line that begins at an offset.
func (d Document) suspect(begin int, message string) int {
	line, _, _ := bytes.Cut(d.Source[begin:], newline)
	for _, s := range suspects {
		if s.message.MatchString(message) {
			if match := s.pattern.FindSubmatchIndex(line); match != nil {
				return begin + match[2]
			}
		}
	}
	return begin + len(line) - len(bytes.TrimLeft(line, " \t"))
}

// unusableKey returns the first key of a mapping that is null, a mapping or a list.
func unusableKey(node *yamlnode.Node) *yamlnode.Node {
	for i, content := range node.Content {
		isKey, key := node.Kind == yamlnode.MappingNode && i%2 == 0, content
		if key.Kind == yamlnode.AliasNode {
			key = key.Alias
		}
		if isKey && (key.Kind != yamlnode.ScalarNode || key.ShortTag() == "!!null") {
			return content
		}
		if key := unusableKey(content); key != nil {
			return key
		}
	}
	return nil
}

// yamlErrorLine takes the line out of a YAML decoder's error, 0 if there is none.
func yamlErrorLine(err error) (line int, message string) {
	if err == nil {
		return 0, ""
	}
	message = err.Error()
	if prefix := yamlError.FindStringSubmatch(message); prefix != nil {
		line, _ = strconv.Atoi(prefix[1])
		message = message[len(prefix[0]):]
	}
	return line, message
}

// firstUnreadable returns the offset of the first byte that cannot stand in YAML.
func firstUnreadable(source []byte) int {
	for i := 0; i < len(source); {
		r, size := utf8.DecodeRune(source[i:])
		if r == utf8.RuneError && size == 1 || r == 0x7f || r < ' ' && r != '\t' && r != '\n' && r != '\r' {
			return i
		}
		i += size
	}
	return 0
}

// Position returns the line and column of the value that a path of keys (string) and indices (int)
// leads to, or of the nearest one on the way there: of its key where it has one.
func (d Document) Position(path []any) (line, column int) {
	if d.JSON {
		return d.place(jsonOffset(d.Source, path))
	}
	var root yamlnode.Node
	if err := yamlnode.Unmarshal(d.Source, &root); err != nil || len(root.Content) == 0 {
		return d.Line, 0
	}
	node := root.Content[0]
	line, column = node.Line, node.Column
	for _, step := range path {
		next, place := child(node, step)
		if next == nil {
			break
		}
		node, line, column = next, place.Line, place.Column
	}
	return d.inFile(line, column)
}

// inFile returns the line and column, in the file, of what a YAML decoder places in the source.
func (d Document) inFile(line, column int) (inFile, inLine int) {
	return d.place(d.offset(line, column))
}

// offset returns the offset of what a YAML decoder places in the source.
func (d Document) offset(line, column int) int {
	offset := d.lineBegin(line)
	for range column - 1 {
		_, size := utf8.DecodeRune(d.Source[offset:])
		offset += size
	}
	return offset
}

// jsonOffset returns the offset of what a path leads to in JSON that is well-formed.
func jsonOffset(source []byte, path []any) int {
	decoder := json.NewDecoder(bytes.NewReader(source))
	next := func() int { // where the next token begins
		at := int(decoder.InputOffset())
		return len(source) - len(bytes.TrimLeft(source[at:], " \t\r\n,:"))
	}
	found := next()
	for _, step := range path {
		_, isKey := step.(string)
		open, _ := decoder.Token()
		if open != json.Delim('{') && isKey || open != json.Delim('[') && !isKey {
			return found
		}
		for index := 0; ; index++ {
			if !decoder.More() {
				return found
			}
			place, here := next(), any(index)
			if isKey {
				here, _ = decoder.Token()
			}
			if here == step {
				found = place
				break
			}
			if decoder.Decode(&json.RawMessage{}) != nil {
				return found
			}
		}
	}
	return found
}

// child returns the value of a mapping or a sequence, and the node that stands for its place.
func child(node *yamlnode.Node, step any) (value, place *yamlnode.Node) {
	switch step := step.(type) {
	case int:
		if node.Kind == yamlnode.SequenceNode && step < len(node.Content) {
			return node.Content[step], node.Content[step]
		}
	case string:
		for i := 0; node.Kind == yamlnode.MappingNode && i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				value, place = node.Content[i+1], node.Content[i]
			}
		}
	}
	return value, place
}

// pathAt returns the keys (string) and indices (int) that lead to the first value of a JSON document
// whose end, or whose opening bracket, lies at the offset or behind it. encoding/json reports offsets
// just behind a wrong value, or just inside a wrong object or array.
func pathAt(document []byte, offset int64) []any {
	decoder := json.NewDecoder(bytes.NewReader(document))
	var path []any // of the next value; nil stands for a key that is yet to come
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
		// A value ended: what follows is the next index, or the next key.
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
