package document

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
)

// DecodeStrictly is like Decode, for documents that people write. It reports faults of the document's fields, up to MaxFaults, including
// fields that the value lacks and fields given twice. It returns true if all known fields were decoded.
func (d Document) DecodeStrictly(into any) (decoded bool, found []*findings.Finding) {
	return d.decodeStrictly(into, strict{document: d, known: true})
}

// DecodeIgnoringCase is like DecodeStrictly, for documents of OLM's tools: these ignore the case of keys, and a field without a value
// counts as left out.
func (d Document) DecodeIgnoringCase(into any) (decoded bool, found []*findings.Finding) {
	return d.decodeStrictly(into, strict{document: d, known: true, lenient: true})
}

func (d Document) decodeStrictly(into any, s strict) (decoded bool, found []*findings.Finding) {
	root, err := boundedyaml.Parse(d.Source)
	if err != nil {
		return false, []*findings.Finding{d.yamlFault(err)}
	}
	if root.Line > 0 {
		s.value(&root, &root, reflect.TypeOf(into).Elem(), "the document")
	}
	if !s.known {
		return false, s.found
	}
	// The two decoders differ in a few details, such as whether "yes" is a string.
	if fault := (*findings.Finding)(nil); errors.As(d.Decode(into), &fault) {
		return false, append(s.found, fault)
	}
	return true, s.found
}

// strict checks a document against a type.
type strict struct {
	document Document
	found    []*findings.Finding
	// known says that every known field has the right type.
	known bool
	// lenient says that neither the case of keys nor fields without a value matter.
	lenient bool
}

// value checks a value against a type. place is the node that findings point at: the value, or its key.
func (s *strict) value(node, place *boundedyaml.Node, t reflect.Type, what string) {
	if node.Kind == boundedyaml.AliasNode {
		node = node.Alias
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case node.Kind == boundedyaml.ScalarNode && node.Tag == "!!null" && s.lenient:
	case node.Kind == boundedyaml.ScalarNode && node.Tag == "!!null":
		s.mismatch(place, "%s has no value; give it one, or leave it out", what)
	case t.Kind() == reflect.Struct && node.Kind == boundedyaml.MappingNode:
		s.fields(node, t)
	case t.Kind() == reflect.Slice && node.Kind == boundedyaml.SequenceNode:
		for i, element := range node.Content {
			s.value(element, element, t.Elem(), fmt.Sprintf("number %d of %s", i+1, strings.TrimPrefix(what, "field ")))
		}
	case t.Kind() == reflect.String && kindOf(node) == jsonTypes["string"]:
	case t.Kind() == reflect.Bool && kindOf(node) == jsonTypes["bool"]:
	case t.Kind() == reflect.String && node.Kind == boundedyaml.ScalarNode: // a number or a boolean
		s.mismatch(place, "%s is %s; expected %s", what, kindOf(node), wanted(t)).Fixed(s.document.edit(node, node.Value))
	default:
		s.mismatch(place, "%s is %s; expected %s", what, kindOf(node), wanted(t))
	}
}

// fields checks an object against a struct whose fields all have JSON names.
func (s *strict) fields(object *boundedyaml.Node, t reflect.Type) {
	fields := map[string]reflect.Type{}
	var names []string
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields[name], names = field.Type, append(names, name)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(object.Content); i += 2 {
		key, value := object.Content[i], object.Content[i+1]
		name := key.Value
		if s.lenient {
			if same := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) }); same >= 0 {
				name = names[same]
			}
		}
		switch field := fields[name]; {
		case field == nil:
			s.report(key, "unknown field %s; expected one of %s", key.Value, strings.Join(names, ", "))
		case seen[name]:
			s.report(key, "field %s is given twice", key.Value)
		default:
			s.value(value, key, field, "field "+key.Value)
		}
		seen[name] = true
	}
}

func (s *strict) mismatch(at *boundedyaml.Node, format string, args ...any) *findings.Finding {
	s.known = false
	return s.report(at, format, args...)
}

func (s *strict) report(at *boundedyaml.Node, format string, args ...any) *findings.Finding {
	if len(s.found) == MaxFaults {
		format, args = "there are more faults from here on; fix those before first", nil
	}
	f := Field.Finding(s.document.File, format, args...)
	if len(s.found) <= MaxFaults {
		s.found = append(s.found, f.At(s.document.inFile(at.Line, at.Column)))
	}
	return f
}

// kindOf names the type of a value.
func kindOf(node *boundedyaml.Node) string {
	switch {
	case node.Kind == boundedyaml.MappingNode:
		return jsonTypes["object"]
	case node.Kind == boundedyaml.SequenceNode:
		return jsonTypes["array"]
	case node.Tag == "!!int" || node.Tag == "!!float":
		return jsonTypes["number"]
	case node.Tag == "!!bool":
		return jsonTypes["bool"]
	}
	return jsonTypes["string"]
}
