// Package boundedyaml reads and writes YAML like sigs.k8s.io/yaml, within limits: documents may come from anybody, and a few
// kilobytes of YAML can expand to gigabytes. All shipped code reads YAML through this package; hack/imports enforces this.
//
// It rejects a document if its aliases expand to many times the size of its source, or if it has more values or
// deeper nesting than any legitimate document. Reading a document takes memory in proportion to its source.
package boundedyaml

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	yamlv2 "go.yaml.in/yaml/v2"
	yamlv3 "go.yaml.in/yaml/v3"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kubernetes "sigs.k8s.io/yaml"
)

// Unmarshal reads a document into a value by its JSON tags.
func Unmarshal(source []byte, into any) error {
	content, err := toJSON(source, yamlv2.Unmarshal)
	if err != nil {
		return fmt.Errorf("error converting YAML to JSON: %w", err)
	}
	if json.Unmarshal(content, into) == nil {
		return nil
	}
	return kubernetes.Unmarshal(source, into) // it converts numbers to strings if the field is a string
}

// UnmarshalStrict is like Unmarshal, but fails if a key is duplicate or has no field in the value.
func UnmarshalStrict(source []byte, into any) error {
	if _, err := toJSON(source, yamlv2.UnmarshalStrict); err != nil {
		return fmt.Errorf("error converting YAML to JSON: %w", err)
	}
	return kubernetes.UnmarshalStrict(source, into)
}

// ToJSON returns a document as JSON.
func ToJSON(source []byte) ([]byte, error) { return toJSON(source, yamlv2.Unmarshal) }

func toJSON(source []byte, decode func([]byte, any) error) ([]byte, error) {
	if err := checkSource(source); err != nil {
		return nil, err
	}
	var value any // aliases share the strings of their anchors
	if err := decode(source, &value); err != nil {
		if isExcessive(err) {
			return nil, refuseAliases(source)
		}
		return nil, err
	}
	w := &writer{limit: Longest(len(source))}
	if err := w.value(value, 0); err != nil {
		if errors.Is(err, errTooLong) {
			return nil, refuseAliases(source)
		}
		if errors.Is(err, errTooDeep) {
			return nil, refuseDepth(source)
		}
		return nil, err
	}
	return w.out, nil
}

// FromJSON returns JSON as YAML.
func FromJSON(content []byte) ([]byte, error) {
	if err := checkSource(content); err != nil {
		return nil, err
	}
	return kubernetes.JSONToYAML(content)
}

// Marshal returns a value as YAML, by its JSON tags.
func Marshal(value any) ([]byte, error) { return kubernetes.Marshal(value) }

// Node is a value in a document, with its position. The node of an alias leads to its anchor, so a walk of all nodes may visit very many.
type Node = yamlv3.Node

// The kinds of nodes.
const (
	ScalarNode   = yamlv3.ScalarNode
	MappingNode  = yamlv3.MappingNode
	SequenceNode = yamlv3.SequenceNode
	AliasNode    = yamlv3.AliasNode
)

// DoubleQuoted is the style of a scalar in double quotes, InBrackets that of a list or a mapping.
const (
	DoubleQuoted = yamlv3.DoubleQuotedStyle
	InBrackets   = yamlv3.FlowStyle
)

// Encode returns a document with the styles and comments of its nodes, indented by two.
func Encode(root *Node) ([]byte, error) {
	var text bytes.Buffer
	encoder := yamlv3.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, err
	}
	return text.Bytes(), encoder.Close()
}

// Parse returns the root of a document, or a zero node for an empty one. Its errors may only hint at the position of
// a fault: the decoders do not agree on all faults.
func Parse(source []byte) (Node, error) {
	var document Node
	if err := checkSource(source); err != nil {
		return document, err
	}
	err := yamlv3.Unmarshal(source, &document)
	if len(document.Content) == 0 {
		return Node{}, err
	}
	return *document.Content[0], err
}

// IsSingle reports whether a text is exactly one document.
func IsSingle(text []byte) bool {
	if checkSource(text) != nil {
		return false
	}
	var first, second Node
	decoder := yamlv3.NewDecoder(bytes.NewReader(text))
	return decoder.Decode(&first) == nil && errors.Is(decoder.Decode(&second), io.EOF)
}

// Split returns the documents of a file.
func Split(file []byte) (documents [][]byte, err error) {
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(file))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
}

// typeOf returns the type of a decoded key.
func typeOf(key any) string {
	if key == nil {
		return "null"
	}
	return reflect.TypeOf(key).String()
}
