package yaml

import (
	"bytes"
	"fmt"
	"strings"
)

// What a document may take. Everything that is meant to be read is far below: OLM takes no bundle above 4 MiB from
// a catalog, and etcd no object above 1.5 MiB.
const (
	// factor is how many times as long as its source a document may be once its aliases are written out. One that is
	// short may be always bytes long.
	factor = 16
	always = 256 << 10
	// longest is how long a document may be then, in bytes, however long its source is.
	longest = 64 << 20
	// maxValues is how many values a document may hold: each takes a hundred bytes and more, and two in the source.
	maxValues = 1 << 19
	// maxDepth is how deep values may nest.
	maxDepth = 500
)

// Longest returns how long a document may be as JSON, in bytes, whose source has a length.
func Longest(source int) int { return min(always+factor*source, longest) }

// Refusal is why a document is not read though it may be well-formed. It says what was found, what is expected and
// what to do.
type Refusal struct {
	// Line and Column are the place in the document, counted from 1. They are 0 where it is the document as a whole.
	Line, Column int
	Message      string
}

func (r *Refusal) Error() string {
	if r.Line == 0 {
		return r.Message
	}
	return fmt.Sprintf("line %d, column %d: %s", r.Line, r.Column, r.Message)
}

// checkSource refuses what would take much memory to parse.
func checkSource(source []byte) error {
	if bytes.HasPrefix(source, []byte("\xff\xfe")) || bytes.HasPrefix(source, []byte("\xfe\xff")) {
		return &Refusal{Message: "the document is in UTF-16; expected UTF-8: save it in that encoding"}
	}
	if len(source) <= maxValues {
		return nil
	}
	values := 1
	for _, before := range []string{"\n", "\r", ",", ":", "-", "[", "{", "?"} { // one of which comes before each value but the first
		values += bytes.Count(source, []byte(before))
	}
	if values > maxValues {
		return &Refusal{Message: fmt.Sprintf("the document has %d places at which a value may begin; expected at most %d: divide it into several", values, maxValues)}
	}
	return nil
}

// isExcessive tells whether the decoder has refused to follow aliases: it counts values, and no bytes.
func isExcessive(err error) bool { return strings.Contains(err.Error(), "excessive aliasing") }

// refuseAliases refuses a document for its aliases, or whatever else makes it long.
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

// below returns the first node that is some levels below another.
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

// measure adds up how many bytes a document has with its aliases written out.
type measure struct {
	limit int
	total int
	sizes map[*Node]int // of what has an anchor; of no more than the limit
	// crossing is the alias with which the limit is exceeded, largest the one that stands for most.
	crossing, largest *Node
}

// size returns how many bytes a node has, the limit at most.
func (m *measure) size(node *Node) int {
	begin := m.total
	if node.Kind == AliasNode {
		m.total += m.sizes[node.Alias] // which is before, or the document is not well-formed
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
