package document

import (
	"bytes"
	"strings"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
)

// Replaced returns the edit that replaces the text of the scalar at a path of keys (string) and indices (int), and keeps its quotes.
// It returns nil if the scalar does not exist or spans several lines.
func (d Document) Replaced(path []any, text string) []findings.Edit {
	return d.edited(path, func(node *boundedyaml.Node) string { return text })
}

// Quoted returns the edit that puts quotes around the scalar at a path.
func (d Document) Quoted(path []any) []findings.Edit {
	return d.edited(path, func(node *boundedyaml.Node) string { return node.Value })
}

func (d Document) edited(path []any, text func(*boundedyaml.Node) string) []findings.Edit {
	root, err := boundedyaml.Parse(d.Source)
	if err != nil || root.Line == 0 {
		return nil
	}
	node := &root
	for _, step := range path {
		if node, _ = child(node, step); node == nil {
			return nil
		}
	}
	return d.edit(node, text(node))
}

// edit returns the edit that replaces the text of a scalar. JSON has only one kind of quotes.
func (d Document) edit(node *boundedyaml.Node, text string) []findings.Edit {
	offset, old, ok := boundedyaml.Written(d.Source, node)
	if !ok {
		return nil
	}
	like := old
	if d.JSON || !strings.HasPrefix(old, "'") && node.ShortTag() != "!!str" {
		like = `"` // makes it a string
	}
	if edited := boundedyaml.Scalar(text, like); edited != old {
		return []findings.Edit{{Offset: d.Offset + int64(offset), Old: old, New: edited}}
	}
	return nil
}

// Added returns the edit that adds a string field to the object at a path. It returns nil if the object does not exist, or has no
// field on a line of its own.
func (d Document) Added(path []any, key, text string) []findings.Edit {
	root, err := boundedyaml.Parse(d.Source)
	if err != nil || root.Line == 0 || d.JSON {
		return nil
	}
	node := &root
	for _, step := range path {
		if node, _ = child(node, step); node == nil {
			return nil
		}
	}
	if node.Kind != boundedyaml.MappingNode {
		return nil
	}
	for i := 0; i < len(node.Content); i += 2 {
		first := node.Content[i]
		offset := boundedyaml.Offset(d.Source, first.Line, first.Column)
		begin := bytes.LastIndexByte(d.Source[:offset], '\n') + 1
		if first.HeadComment != "" || len(bytes.TrimLeft(d.Source[begin:offset], " ")) > 0 {
			continue // a comment would seem to be about the new field, and after "- " or a brace, the field is not on a line of its own
		}
		end := "\n"
		if bytes.Contains(d.Source, []byte("\r\n")) {
			end = "\r\n"
		}
		return []findings.Edit{{Offset: d.Offset + int64(offset), New: boundedyaml.Scalar(key, "") + ": " + boundedyaml.Scalar(text, "") + end + strings.Repeat(" ", offset-begin)}}
	}
	return nil
}
