package document

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// locator finds the places of values in one document. It remembers what it has read, so that the time for all faults of a document grows
// with the sum of the number of faults and the length of the document, not with the product.
type locator struct {
	Document
	root   *boundedyaml.Node      // of YAML, nil if it cannot be parsed
	breaks []int                  // where lines begin, as YAML counts them
	lines  []int                  // where lines begin, as editors count them
	known  map[int]*jsonContainer // of JSON, by their offsets

	lastLine, lastOffset, lastColumn int // of the last place
}

// jsonContainer holds the offsets of the values of an object or an array, and of the keys of an object.
type jsonContainer struct {
	keys   map[string]jsonField
	values []int
}

type jsonField struct{ key, value int }

func newLocator(d Document) *locator {
	l := &locator{Document: d, known: map[int]*jsonContainer{}, lines: []int{0}}
	for at, c := range d.Source {
		if c == '\n' {
			l.lines = append(l.lines, at+1)
		}
	}
	if d.JSON {
		return l
	}
	if root, err := boundedyaml.Parse(d.Source); err == nil && root.Line > 0 {
		l.root = &root
		l.breaks = boundedyaml.Lines(d.Source)
	}
	return l
}

// position returns the line and column of the value at a path, as Document.Position does.
func (l *locator) position(path []any) (line, column int) {
	if l.JSON {
		return l.place(l.jsonOffset(path))
	}
	if l.root == nil {
		return l.Line, 0
	}
	node := l.root
	line, column = node.Line, node.Column
	for _, step := range path {
		next, place := child(node, step)
		if next == nil {
			break
		}
		node, line, column = next, place.Line, place.Column
	}
	offset := l.breaks[min(line, len(l.breaks))-1]
	for range column - 1 {
		_, size := utf8.DecodeRune(l.Source[offset:])
		offset += size
	}
	return l.place(offset)
}

// place returns the line and column in the file of the byte at an offset.
func (l *locator) place(offset int) (line, column int) {
	offset = min(offset, len(bytes.TrimRight(l.Source, "\r\n")))
	line, found := slices.BinarySearch(l.lines, offset)
	if found {
		line++
	}
	begin := l.lines[line-1]
	if line == l.lastLine && offset >= l.lastOffset { // a line may be the whole document
		column = l.lastColumn + utf8.RuneCount(l.Source[l.lastOffset:offset])
	} else {
		column = 1 + utf8.RuneCount(l.Source[begin:offset])
	}
	l.lastLine, l.lastOffset, l.lastColumn = line, offset, column
	if line == 1 {
		column += l.Indent
	}
	return l.Line + line - 1, column
}

func (l *locator) jsonOffset(path []any) int {
	value := l.skipSpace(0)
	found := value
	for _, step := range path {
		c := l.container(value)
		switch step := step.(type) {
		case string:
			field, is := c.keys[step]
			if !is {
				return found
			}
			found, value = field.key, field.value
		case int:
			if c.keys != nil || step >= len(c.values) {
				return found
			}
			found, value = c.values[step], c.values[step]
		}
	}
	return found
}

func (l *locator) skipSpace(at int) int {
	return len(l.Source) - len(bytes.TrimLeft(l.Source[at:], " \t\r\n,:"))
}

// container returns the object or array at an offset. It reads each once.
func (l *locator) container(at int) *jsonContainer {
	if c := l.known[at]; c != nil {
		return c
	}
	c := &jsonContainer{}
	l.known[at] = c
	decoder := json.NewDecoder(bytes.NewReader(l.Source[at:]))
	open, err := decoder.Token()
	isObject := open == json.Delim('{')
	if err != nil || !isObject && open != json.Delim('[') {
		return c
	}
	if isObject {
		c.keys = map[string]jsonField{}
	}
	for decoder.More() {
		key := l.skipSpace(at + int(decoder.InputOffset()))
		var name string
		if isObject {
			token, err := decoder.Token()
			if err != nil {
				return c
			}
			name, _ = token.(string)
		}
		value := l.skipSpace(at + int(decoder.InputOffset()))
		if decoder.Decode(&skipped{}) != nil {
			return c
		}
		if !isObject {
			c.values = append(c.values, value)
		} else if _, known := c.keys[name]; !known {
			c.keys[name] = jsonField{key, value}
		}
	}
	return c
}

// skipped is a value that is not read.
type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

// last keeps the locator of the last faulty document: faults of one document come one after the other.
var last struct {
	sync.Mutex
	*locator
	modified time.Time
	size     int64
}

// Locate returns the line and column of the value that a path of keys (string) and indices (int) leads to in the document at a
// span, or of the last value on the path that exists.
func Locate(span Span, path []any) (line, column int, err error) {
	info, err := os.Stat(span.File)
	if err != nil {
		return 0, 0, err
	}
	last.Lock()
	defer last.Unlock()
	if last.locator == nil || last.Span != span || !last.modified.Equal(info.ModTime()) || last.size != info.Size() {
		d, err := Load(span)
		if err != nil {
			return 0, 0, err
		}
		last.locator, last.modified, last.size = newLocator(d), info.ModTime(), info.Size()
	}
	line, column = last.position(path)
	return line, column, nil
}
