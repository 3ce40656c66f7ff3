package rules

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-csi/berth/yaml"
)

// Validators name fields, values or neither, but never a line. To find it takes a second look at the file,
// by a decoder that keeps positions; only faulty files pay for it.

// placeOf returns where a field stands in a YAML document, or, where there is none, the field that it would
// be in. Numbers count the elements of a list.
func placeOf(document []byte, path []string) (line, column int) {
	node, _ := walk(rootOf(document), path)
	return node.Line, node.Column
}

// rootOf returns the content of a document; an empty node at its beginning if it has none.
func rootOf(document []byte) *yaml.Node {
	node, err := yaml.Parse(document)
	if err != nil || node.Line == 0 {
		return &yaml.Node{Line: 1, Column: 1}
	}
	return &node
}

// walk follows a path as far as there are such fields, and returns the last one's key, or list element, and
// how far it came.
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

// guessPlace returns where a validator's finding most likely stands: at the field that it names, at the value
// that it does not like, at an annotation that its message is about, or else at the beginning.
func guessPlace(document []byte, field, value, message string) (line, column int) {
	root := rootOf(document)
	if path := fieldWords.FindAllString(field, -1); len(path) > 0 {
		path = slices.DeleteFunc(path, func(word string) bool { return word == "csv" || word == "CSV" })
		if node, depth := walk(root, path); depth > 0 {
			return node.Line, node.Column
		}
	}
	if node := scalar(root, value); node != nil && value != "" {
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

// mappingOf returns the value of a field; an empty node if there is none.
func mappingOf(node *yaml.Node, name string) *yaml.Node {
	if _, value := child(node, name); value != nil {
		return value
	}
	return &yaml.Node{}
}

// scalar returns the first scalar of a value below a node.
func scalar(node *yaml.Node, value string) *yaml.Node {
	if node.Kind == yaml.ScalarNode && node.Value == value {
		return node
	}
	for _, content := range node.Content {
		if found := scalar(content, value); found != nil {
			return found
		}
	}
	return nil
}
