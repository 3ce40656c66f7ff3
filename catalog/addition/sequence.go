package addition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/boundedyaml"
)

// root returns the root of a document of the file.
func (e *edited) root(number int) (*boundedyaml.Node, error) {
	root, err := boundedyaml.Parse(e.documents[number].Source)
	return &root, err
}

// child returns a value of a mapping, and its key. opm ignores the case of keys.
func child(mapping *boundedyaml.Node, name string) (key string, value *boundedyaml.Node) {
	for i := 0; mapping.Kind == boundedyaml.MappingNode && i+1 < len(mapping.Content); i += 2 {
		if strings.EqualFold(mapping.Content[i].Value, name) {
			key, value = mapping.Content[i].Value, mapping.Content[i+1]
		}
	}
	return key, value
}

// element is a new element of a sequence.
type element interface {
	// flow returns the element in one line.
	flow() (string, error)
	// block returns the element as lines in block style.
	block() ([]string, error)
}

// fields is an object whose values are strings.
type fields [][2]string

func (f fields) flow() (string, error) {
	var text []string
	for _, field := range f {
		text = append(text, quoted(field[0])+": "+quoted(field[1]))
	}
	return "{" + strings.Join(text, ", ") + "}", nil
}

func (f fields) block() (lines []string, err error) {
	for _, field := range f {
		lines = append(lines, field[0]+": "+plain(field[1]))
	}
	return lines, nil
}

// bundleDocument is a bundle's document in a catalog.
type bundleDocument struct{ declcfg.Bundle }

func (r bundleDocument) flow() (string, error) {
	text, err := json.Marshal(r.Bundle)
	return string(text), err
}

func (r bundleDocument) block() ([]string, error) {
	var text strings.Builder
	err := render.WriteYAML(r.Bundle, &text)
	return strings.Split(strings.TrimSuffix(strings.TrimPrefix(text.String(), "---\n"), "\n"), "\n"), err
}

// append adds an element to the sequence at a path of a document, in the style of the sequence.
func (e *edited) append(number int, path []any, added element) error {
	d := e.documents[number]
	sequence, err := e.root(number)
	if err != nil {
		return err
	}
	for _, step := range path {
		if sequence.Kind == boundedyaml.AliasNode {
			break
		}
		switch step := step.(type) {
		case string:
			_, sequence = child(sequence, step)
		case int:
			sequence = sequence.Content[step]
		}
		if sequence == nil {
			return fmt.Errorf("%s has no %v; add the bundle by hand", e.request.File, step)
		}
	}
	begin, inBrackets := boundedyaml.Offset(d.Source, sequence.Line, sequence.Column), sequence.Style&boundedyaml.InBrackets != 0
	if sequence.Kind != boundedyaml.SequenceNode || inBrackets && d.Source[begin] != '[' { // such as an alias, or an anchor before a bracket
		line, _ := d.Position(path)
		return fmt.Errorf("%s:%d: expected a list; add the bundle by hand", e.request.File, line)
	}
	var at insertion
	if inBrackets {
		at, err = inFlow(sequence, begin, added)
	} else {
		at, err = inBlock(d.Source, sequence, added)
	}
	if err != nil {
		return err
	}
	at.offset += int(d.Offset)
	e.all = append(e.all, at)
	return nil
}

// inFlow returns the insertion of an element at the beginning of a sequence in brackets.
func inFlow(sequence *boundedyaml.Node, begin int, added element) (insertion, error) {
	text, err := added.flow()
	if len(sequence.Content) > 0 {
		text += ", "
	}
	return insertion{begin + 1, text}, err
}

// inBlock returns the insertion of an element in lines of its own: after the last element of the sequence, or before the last element if
// that contains a text of several lines, whose end is not known.
func inBlock(source []byte, sequence *boundedyaml.Node, added element) (insertion, error) {
	last := sequence.Content[len(sequence.Content)-1]
	begin := boundedyaml.Offset(source, last.Line, 1)
	indent := source[begin:]
	indent = indent[:max(0, bytes.IndexByte(indent, '-'))]
	end, known := lastLine(source, last)
	at := begin
	if known {
		at = boundedyaml.Offset(source, end, 1)
		if newline := bytes.IndexByte(source[at:], '\n'); newline >= 0 {
			at += newline + 1
		} else {
			at = len(source)
		}
	}
	var text strings.Builder
	if at == len(source) && at > 0 && source[at-1] != '\n' {
		text.WriteByte('\n')
	}
	lines, err := added.block()
	for i, line := range lines {
		fmt.Fprintf(&text, "%s%s%s\n", indent, map[bool]string{true: "- ", false: "  "}[i == 0], line)
	}
	return insertion{at, text.String()}, err
}

// lastLine returns the last line of a node, if none of its values spans several lines.
func lastLine(source []byte, node *boundedyaml.Node) (line int, known bool) {
	line, known = node.Line, true
	if node.Kind == boundedyaml.ScalarNode {
		begin := source[boundedyaml.Offset(source, node.Line, node.Column):]
		known = bytes.HasPrefix(bytes.TrimLeft(begin, `"'`), []byte(node.Value)) && !strings.Contains(node.Value, "\n")
	}
	for _, below := range node.Content {
		last, is := lastLine(source, below)
		line, known = max(line, last), known && is
	}
	return line, known
}

// quoted returns a text as JSON, which YAML reads as well.
func quoted(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err) // every string can be encoded
	}
	return string(encoded)
}

// plain returns a text as YAML writes it.
func plain(text string) string {
	encoded, err := boundedyaml.Marshal(text)
	if err != nil || bytes.Count(encoded, []byte("\n")) > 1 {
		return quoted(text)
	}
	return strings.TrimSpace(string(encoded))
}

// apply returns the text with all insertions.
func (e *edited) apply() []byte {
	slices.SortStableFunc(e.all, func(a, b insertion) int { return b.offset - a.offset })
	text := slices.Clone(e.text)
	for _, i := range e.all {
		text = slices.Concat(text[:i.offset], []byte(i.text), text[i.offset:])
	}
	return text
}
