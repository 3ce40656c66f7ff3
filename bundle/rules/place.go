package rules

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-csi/berth/yaml"
)

// Validators report fields, values or neither, but never lines. Finding the line means parsing the file again with a decoder
// that keeps positions. Only faulty files pay for that.

// places are the contents of the files in which faults were located: each is parsed once.
type places map[string]*parsed

// parsed is the content of a file, and the first scalar of each value in it, once somebody looks for one.
type parsed struct {
	root    *yaml.Node
	scalars map[string]*yaml.Node
}

func (p places) of(file string, document []byte) *parsed {
	if p[file] == nil {
		p[file] = &parsed{root: rootOf(document)}
	}
	return p[file]
}

// scalar returns the first scalar of a value.
func (p *parsed) scalar(value string) *yaml.Node {
	if p.scalars == nil {
		p.scalars = map[string]*yaml.Node{}
		p.collect(p.root)
	}
	return p.scalars[value]
}

func (p *parsed) collect(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && p.scalars[node.Value] == nil {
		p.scalars[node.Value] = node
	}
	for _, content := range node.Content {
		p.collect(content)
	}
}

// placeOf returns the position of a field in a document or, if there is none, of the field that it would be in. Numbers in the
// path are indices of lists.
func placeOf(root *yaml.Node, path []string) (line, column int) {
	node, _ := walk(root, path)
	return node.Line, node.Column
}

// rootOf returns the content of a document, or an empty node at its beginning.
func rootOf(document []byte) *yaml.Node {
	node, err := yaml.Parse(document)
	if err != nil || node.Line == 0 {
		return &yaml.Node{Line: 1, Column: 1}
	}
	return &node
}

// walk follows a path as far as its fields exist. It returns the key or list element of the last one, and the number of
// steps.
func walk(node *yaml.Node, path []string) (found *yaml.Node, depth int) {
	found = node
	for ; depth < len(path); depth++ {
		key, value := child(node, path[depth])
		if key == nil {
			break
		}
		found, node = key, value
	}
	return found, depth
}

func child(node *yaml.Node, name string) (key, value *yaml.Node) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if strings.EqualFold(node.Content[i].Value, name) {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	}
	return nil, nil
}

var fieldWords = regexp.MustCompile(`[A-Za-z0-9_/-]+`)

// guessPlace returns the likely position of a validator's finding: that of the field or the value that it names, that of an
// annotation in its message, or else the beginning.
func guessPlace(in *parsed, field, value, message string) (line, column int) {
	root := in.root
	if path := fieldWords.FindAllString(field, -1); len(path) > 0 {
		path = slices.DeleteFunc(path, func(word string) bool { return word == "csv" || word == "CSV" })
		if node, depth := walk(root, path); depth > 0 {
			return node.Line, node.Column
		}
	}
	if node := in.scalar(value); node != nil && value != "" {
		return node.Line, node.Column
	}
	if _, annotations := child(mappingOf(root, "metadata"), "annotations"); annotations != nil {
		for i := 0; i < len(annotations.Content); i += 2 {
			if strings.Contains(strings.ToLower(message), "annotations") && strings.Contains(strings.ToLower(message), strings.ToLower(annotations.Content[i].Value)) {
				return annotations.Content[i].Line, annotations.Content[i].Column
			}
		}
	}
	return root.Line, root.Column
}

// mappingOf returns the value of a field, or an empty node.
func mappingOf(node *yaml.Node, name string) *yaml.Node {
	if _, value := child(node, name); value != nil {
		return value
	}
	return &yaml.Node{}
}
