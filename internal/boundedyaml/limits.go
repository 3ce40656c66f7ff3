package boundedyaml

import (
	"bytes"
	"fmt"
	"strings"
)

// Limits of a document. All legitimate documents are far below: OLM accepts no bundle above 4 MiB from a catalog, and
// etcd no object above 1.5 MiB.
const (
	// factor is the maximum ratio of a document's size with expanded aliases to its source. always is the size in
	// bytes that is allowed even for short documents.
	factor = 16
	always = 256 << 10
	// longest is the maximum size in bytes with expanded aliases.
	longest = 64 << 20
	// maxValues is the maximum number of values. Each takes two bytes in the source and more than a hundred in
	// memory.
	maxValues = 1 << 19
	// maxDepth is the maximum nesting depth.
	maxDepth = 500
)

// Longest returns the maximum size of a document as JSON, in bytes, given the size of its source.
func Longest(source int) int { return min(always+factor*source, longest) }

// Refusal says why a document is rejected although it may be well-formed: what was found, what was expected and what
// to do.
type Refusal struct {
	// Line and Column are the position in the document, counted from 1. They are 0 if the refusal is about the whole document.
	Line, Column int
	Message      string
}

func (r *Refusal) Error() string {
	if r.Line == 0 {
		return r.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", r.Line, r.Column, r.Message)
}

// checkSource rejects a source that would take much memory to parse.
func checkSource(source []byte) error {
	if bytes.HasPrefix(source, []byte("\xff\xfe")) || bytes.HasPrefix(source, []byte("\xfe\xff")) {
		return &Refusal{Message: "the document is in UTF-16; expected UTF-8: save it in that encoding"}
	}
	if len(source) <= maxValues {
		return nil
	}
	if values := Places(source); values > maxValues {
		return &Refusal{Message: fmt.Sprintf("the document has %d places at which a value may begin; expected at most %d: divide it into several", values, maxValues)}
	}
	return nil
}

// Places returns the number of places in a document at which a value may begin, in YAML or JSON.
func Places(source []byte) int {
	values := 1
	for _, before := range []string{"\n", "\r", ",", ":", "-", "[", "{", "?"} { // each value but the first follows one of these
		values += bytes.Count(source, []byte(before))
	}
	return values
}

// isExcessive reports whether the decoder refused to expand aliases. The decoder counts values, not bytes.
func isExcessive(err error) bool { return strings.Contains(err.Error(), "excessive aliasing") }

// refuseAliases rejects a document that is too long, and names the alias that makes it so.
func refuseAliases(source []byte) error {
	limit := Longest(len(source))
	refusal := &Refusal{Message: fmt.Sprintf("the document has %d bytes, but would have more than %d with its aliases written out; "+
		"expected at most %d times as many, and no more than %d: use fewer aliases, or shorten what they stand for", len(source), limit, factor, longest)}
	root, err := Parse(source)
	if err != nil {
		return refusal
	}
	m := &measure{sizes: map[*Node]int{}, limit: limit}
	m.size(&root)
	place := m.crossing
	if place == nil {
		place = m.largest
	}
	if place != nil {
		refusal.Line, refusal.Column = place.Line, place.Column
		refusal.Message = fmt.Sprintf("alias *%s stands for %d bytes; ", shortened(place.Value), m.sizes[place.Alias]) + refusal.Message
	}
	return refusal
}

func refuseDepth(source []byte) error {
	refusal := &Refusal{Message: fmt.Sprintf("the document nests more than %d levels deep; expected fewer", maxDepth)}
	if root, err := Parse(source); err == nil {
		if deep := below(&root, maxDepth); deep != nil {
			refusal.Line, refusal.Column = deep.Line, deep.Column
		}
	}
	return refusal
}

// below returns the first node that is the given number of levels below another, or nil.
func below(node *Node, levels int) *Node {
	if levels == 0 {
		return node
	}
	for _, content := range node.Content {
		if found := below(content, levels-1); found != nil {
			return found
		}
	}
	return nil
}

// measure computes the size of a document with expanded aliases.
type measure struct {
	limit int
	total int
	sizes map[*Node]int // of nodes with an anchor, capped at the limit
	// crossing is the alias that exceeds the limit, largest the alias with the largest value.
	crossing, largest *Node
}

// size returns the size of a node in bytes, capped at the limit.
func (m *measure) size(node *Node) int {
	begin := m.total
	if node.Kind == AliasNode {
		m.total += m.sizes[node.Alias] // an anchor precedes its aliases
		if m.largest == nil || m.sizes[node.Alias] > m.sizes[m.largest.Alias] {
			m.largest = node
		}
		if m.total > m.limit && m.crossing == nil {
			m.crossing = node
		}
	} else {
		m.total += len(node.Value) + 2
	}
	for _, content := range node.Content {
		m.size(content)
	}
	size := min(m.total-begin, m.limit)
	m.total = begin + size
	if node.Anchor != "" {
		m.sizes[node] = size
	}
	return size
}

func shortened(name string) string {
	const enough = 40
	if runes := []rune(name); len(runes) > enough {
		return string(runes[:enough]) + "…"
	}
	return name
}
