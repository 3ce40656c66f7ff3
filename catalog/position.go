package catalog

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	yamlnode "go.yaml.in/yaml/v3"
)

// Finding out where a fault stands costs a second look at the document, by a decoder that keeps
// positions. Only faulty documents pay for it.

// lineOf returns the line, counted from 1, of the byte at an offset.
func lineOf(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(max(offset, 0), len(data))], []byte("\n"))
}

var yamlError = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:line (\d+): )?`)

// parserError matches what the YAML parser says, as opposed to the scanner below it.
var parserError = regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key|',' or)|` +
	`^found (duplicate %|incompatible YAML|undefined tag)`)

// yamlFault places the error of a YAML decoder. What the decoder itself says of lines is of little
// use: it counts from 1 in what its scanner refuses, from 0 in what its parser refuses, and names no
// line for the first one and for what it refuses later.
func (d document) yamlFault(err error) *Finding {
	line, message := yamlErrorLine(err)
	switch {
	case parserError.MatchString(message):
		line++
	case strings.HasPrefix(message, "control characters"), strings.Contains(message, "UTF-8"):
		line = lineOf(d.source, firstUnreadable(d.source))
	case strings.HasPrefix(message, "unknown anchor"):
		name := strings.Trim(strings.Fields(message)[2], "'")
		line = lineOf(d.source, bytes.Index(d.source, []byte("*"+name)))
	case strings.HasPrefix(message, "invalid map key"):
		line = lineOf(d.source, bytes.Index(d.source, []byte("{{")))
		message = "a key must be plain text, and not a mapping or a list; {{ }} of a template that was not filled in reads like one"
	default:
		// The scanner gives up at the end of what it could not finish, such as an open quote. The
		// newer decoder tells where that began.
		var ignored yamlnode.Node
		if begin, _ := yamlErrorLine(yamlnode.Unmarshal(d.source, &ignored)); begin > 0 {
			line = min(line, begin)
		}
	}
	return d.faultAt(line, "malformed YAML: %s", message)
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

// lineAt returns the line within d of what stands at an offset of d.json, as encoding/json reports
// it: just behind a wrong value, or just inside a wrong object or array.
func (d document) lineAt(offset int64) int {
	if &d.json[0] == &d.source[0] {
		return lineOf(d.source, int(offset)-1)
	}
	var root yamlnode.Node
	if err := yamlnode.Unmarshal(d.source, &root); err != nil || len(root.Content) == 0 {
		return 1
	}
	return nodeLine(root.Content[0], pathAt(d.json, offset))
}

// pathAt returns the keys (string) and indices (int) that lead to the first value of a JSON document
// whose end, or whose opening bracket, lies at the offset or behind it.
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

// nodeLine follows path from node as far as it leads, and returns the line it leads to: of the key
// where there is one.
func nodeLine(node *yamlnode.Node, path []any) int {
	line := node.Line
	for _, step := range path {
		var child *yamlnode.Node
		switch step := step.(type) {
		case int:
			if node.Kind == yamlnode.SequenceNode && step < len(node.Content) {
				child = node.Content[step]
				line = child.Line
			}
		case string:
			for i := 0; node.Kind == yamlnode.MappingNode && i+1 < len(node.Content); i += 2 {
				if node.Content[i].Value == step {
					child = node.Content[i+1]
					line = node.Content[i].Line
				}
			}
		}
		if child == nil {
			break
		}
		node = child
	}
	return line
}
