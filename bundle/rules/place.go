package rules

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/boundedyaml"
)

// Validators report fields, values or neither, but never lines. Finding the line means parsing the document again with a decoder
// that keeps positions. Only faulty documents pay for that, and only once.

// places finds the positions of values in one document.
type places struct {
	document document.Document
	root     *boundedyaml.Node
	scalars  map[string]*boundedyaml.Node // the first scalar with each value; filled when needed
}

func newPlaces(d document.Document) *places {
	root, err := boundedyaml.Parse(d.Source)
	if err != nil || root.Line == 0 {
		root = boundedyaml.Node{Line: 1, Column: 1}
	}
	return &places{document: d, root: &root}
}

// at returns the position of the value at a path of keys and indices, or of the last value on the path that exists.
func (p *places) at(path []any) (line, column int) {
	node, value := p.root, p.root
	for _, step := range path {
		key, below := child(value, step, func(a, b string) bool { return a == b })
		if key == nil {
			break
		}
		node, value = key, below
	}
	return p.inFile(node)
}

// inFile returns the position of a node in the file. The document may begin anywhere in it.
func (p *places) inFile(node *boundedyaml.Node) (line, column int) {
	if node.Line == 1 {
		return p.document.Line, node.Column + p.document.Indent
	}
	return p.document.Line + node.Line - 1, node.Column
}

// child returns a value of a mapping or a sequence, with the node whose position counts as the value's.
func child(node *boundedyaml.Node, step any, same func(a, b string) bool) (key, value *boundedyaml.Node) {
	if node.Kind == boundedyaml.AliasNode {
		node = node.Alias
	}
	switch step := step.(type) {
	case string:
		for i := 0; node.Kind == boundedyaml.MappingNode && i+1 < len(node.Content); i += 2 {
			if same(node.Content[i].Value, step) {
				key, value = node.Content[i], node.Content[i+1]
			}
		}
	case int:
		if node.Kind == boundedyaml.SequenceNode && 0 <= step && step < len(node.Content) {
			return node.Content[step], node.Content[step]
		}
	}
	return key, value
}

// twice returns the keys that a mapping in the document repeats, in their order.
func (p *places) twice() (keys []*boundedyaml.Node) {
	var walk func(*boundedyaml.Node)
	walk = func(node *boundedyaml.Node) {
		seen := map[string]bool{}
		for i, content := range node.Content {
			if node.Kind == boundedyaml.MappingNode && i%2 == 0 && content.Kind == boundedyaml.ScalarNode && content.Value != "<<" {
				if seen[content.Value] {
					keys = append(keys, content)
				}
				seen[content.Value] = true
			}
			walk(content)
		}
	}
	walk(p.root)
	return keys
}

// saidField matches the field that some validators name only in their message.
var saidField = regexp.MustCompile(`csv\.(Spec|Metadata)(\.[A-Za-z]+|\["[^"]+"\])+`)

var fieldWords = regexp.MustCompile(`[A-Za-z0-9_/-]+`)

// guess returns the likely position of a validator's finding: of the field or the value that it names, of an annotation in its
// message, or else the beginning.
func (p *places) guess(field, value, message string) (line, column int) {
	if said := saidField.FindString(message); field == "" && said != "" {
		field = said
	}
	words := slices.DeleteFunc(fieldWords.FindAllString(field, -1), func(word string) bool { return word == "csv" || word == "CSV" })
	node, at := p.root, p.root
	for _, word := range words {
		step := any(word)
		if index, err := strconv.Atoi(word); err == nil && at.Kind == boundedyaml.SequenceNode {
			step = index
		}
		key, below := child(at, step, strings.EqualFold)
		if key == nil {
			break
		}
		node, at = key, below
	}
	if node != p.root {
		return p.inFile(node)
	}
	if found := p.scalar(value); found != nil && value != "" {
		return p.inFile(found)
	}
	if _, metadata := child(p.root, "metadata", strings.EqualFold); metadata != nil {
		if _, annotations := child(metadata, "annotations", strings.EqualFold); annotations != nil {
			said := strings.ToLower(message)
			for i := 0; i < len(annotations.Content); i += 2 {
				if strings.Contains(said, "annotations") && strings.Contains(said, strings.ToLower(annotations.Content[i].Value)) {
					return p.inFile(annotations.Content[i])
				}
			}
		}
	}
	return p.inFile(p.root)
}

// scalar returns the first scalar with a value.
func (p *places) scalar(value string) *boundedyaml.Node {
	if p.scalars == nil {
		p.scalars = map[string]*boundedyaml.Node{}
		p.collect(p.root)
	}
	return p.scalars[value]
}

func (p *places) collect(node *boundedyaml.Node) {
	if node.Kind == boundedyaml.ScalarNode && p.scalars[node.Value] == nil {
		p.scalars[node.Value] = node
	}
	for _, content := range node.Content {
		p.collect(content)
	}
}
