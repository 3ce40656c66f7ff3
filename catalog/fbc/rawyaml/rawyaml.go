// Package rawyaml converts YAML documents, as tools write them, to JSON without building a tree.
//
// What it saves: on the generated catalog of the size of a public one (19 MB of YAML, 1,700 bundles), it accepts 97 % of
// the documents, and converting the catalog takes 0.10 s and 1.5 MiB of allocations. The library takes 6.5 times as long
// and allocates 220 times as much. `berth catalog validate`, which also checks the catalog, takes 0.13 s with this
// package and 0.52 s without it, at peaks of 39 and 45 MiB of memory. BenchmarkRawYAML in test/catalogs measures both.
//
// What it accepts: block mappings with keys on one line that are strings, block sequences, and scalars that are plain,
// quoted or literal (|). It refuses everything else: anchors, aliases, tags, directives, flow collections other than []
// and {}, folded scalars (>), tabs before text, carriage returns, and plain scalars that YAML 1.1 reads as other than
// strings, booleans, null or short decimal integers. A document that it refuses is left to the library, and so is every
// malformed one.
//
// FuzzAppendJSON checks that the library also reads every document that this package accepts, with the same result.
package rawyaml

import (
	"bytes"

	"github.com/berth-csi/berth/catalog/fbc/rawjson"
)

// maxDepth is how deep values may nest.
const maxDepth = rawjson.MaxDepth

// maxKey is the greatest length of a key. YAML's limit is 1024 characters.
const maxKey = 500

// AppendJSON appends a YAML document to a buffer, as JSON. It returns false if it refuses the document; the content of
// the buffer is then undefined.
func AppendJSON(buffer, source []byte) ([]byte, bool) {
	if !isReadable(source) {
		return buffer, false
	}
	r := reader{source: source, out: buffer}
	r.node(-1)
	return r.out, !r.refused && r.nextLine() < 0
}

// reader reads a document. Its position is at a value, or after one: at the end of its line or the beginning of the next.
type reader struct {
	source  []byte
	pos     int
	out     []byte
	depth   int
	refused bool
}

func (r *reader) refuse() { r.refused = true }

// nextLine goes to the first character of the next line that is not empty, and returns its column from 0, or -1 at the end.
// Only white space and a comment may follow on the current line.
func (r *reader) nextLine() int {
	begin := bytes.LastIndexByte(r.source[:r.pos], '\n') + 1
	for r.pos < len(r.source) {
		switch c := r.source[r.pos]; c {
		case ' ':
			r.pos++
		case '\n':
			r.pos++
			begin = r.pos
		case '#':
			if r.pos > begin && r.source[r.pos-1] != ' ' {
				r.refuse()
			}
			r.pos += len(line(r.source[r.pos:]))
		case '\t':
			r.refuse()
			return -1
		default:
			return r.pos - begin
		}
	}
	return -1
}

// line returns the text before the end of the line.
func line(text []byte) []byte {
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		return text[:end]
	}
	return text
}

// rest returns the rest of the line.
func (r *reader) rest() []byte { return line(r.source[r.pos:]) }

// peek returns the character at an offset from the position, or a line end after the end.
func (r *reader) peek(offset int) byte {
	if r.pos+offset < len(r.source) {
		return r.source[r.pos+offset]
	}
	return '\n'
}

// atItem reports whether the position is at an item of a sequence.
func (r *reader) atItem() bool {
	return r.peek(0) == '-' && (r.peek(1) == ' ' || r.peek(1) == '\n')
}

// node reads the value on the following lines that are indented by more than parent columns. Without such lines, the value is null.
func (r *reader) node(parent int) {
	column := r.nextLine()
	if r.refused {
		return
	}
	if column <= parent {
		r.out = append(r.out, "null"...)
		return
	}
	r.value(column, parent)
}

// value reads the value at the position, in a column: on its own line or after the dash of an item.
func (r *reader) value(column, parent int) {
	if r.depth++; r.depth > maxDepth {
		r.refuse()
	}
	defer func() { r.depth-- }()
	switch {
	case r.refused:
	case r.atItem():
		r.sequence(column)
	case r.keyLength() > 0:
		r.mapping(column)
	case r.depth == 1:
		r.refuse() // a document of a catalog is an object
	default:
		r.scalar(parent)
	}
}

// sequence reads the items in a column.
func (r *reader) sequence(column int) {
	r.out = append(r.out, '[')
	for !r.refused {
		r.pos++ // the dash
		spaces := len(r.rest()) - len(bytes.TrimLeft(r.rest(), " "))
		if r.pos += spaces; r.peek(0) == '\n' || r.peek(0) == '#' {
			r.node(column)
		} else {
			r.value(column+1+spaces, column)
		}
		if next := r.nextLine(); next < column || next == column && !r.atItem() {
			break
		} else if next > column {
			r.refuse()
		}
		r.out = append(r.out, ',')
	}
	r.out = append(r.out, ']')
}

// mapping reads the keys in a column and their values.
func (r *reader) mapping(column int) {
	r.out = append(r.out, '{')
	for !r.refused {
		length := r.keyLength()
		if length == 0 {
			r.refuse()
			break
		}
		r.key(r.source[r.pos : r.pos+length])
		r.pos += length + 1
		r.out = append(r.out, ':')
		rest := r.rest()
		r.pos += len(rest) - len(bytes.TrimLeft(rest, " "))
		if c := r.peek(0); c == '\n' || c == '#' {
			r.below(column)
		} else {
			r.scalar(column)
		}
		if next := r.nextLine(); next < column {
			break
		} else if next > column {
			r.refuse()
		}
		r.out = append(r.out, ',')
	}
	r.out = append(r.out, '}')
}

// below reads the value of a key from the lines below. A sequence may be indented like the key.
func (r *reader) below(column int) {
	if next := r.nextLine(); next == column && r.atItem() {
		r.value(column, column-1)
		return
	}
	r.node(column)
}

// keyLength returns the length of the key at the position, which a colon must follow, or 0 without a key.
func (r *reader) keyLength() int {
	text := r.rest()
	if len(text) == 0 {
		return 0
	}
	if quote := text[0]; quote == '"' || quote == '\'' {
		end := bytes.IndexByte(text[1:], quote) + 2
		if end >= 2 && isKeyEnd(text, end) {
			return end
		}
		return 0
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ':':
			if isKeyEnd(text, i) {
				return i
			}
		case '#':
			if i > 0 && text[i-1] == ' ' {
				return 0
			}
		}
	}
	return 0
}

// isKeyEnd reports whether text[i] is the colon after a key.
func isKeyEnd(text []byte, i int) bool {
	return i < len(text) && text[i] == ':' && (i+1 == len(text) || text[i+1] == ' ')
}

// key writes a key, which must be a string.
func (r *reader) key(text []byte) {
	if len(text) > maxKey || bytes.HasSuffix(text, []byte(" ")) || bytes.IndexByte(text, '\t') >= 0 {
		r.refuse()
		return
	}
	if text[0] == '"' || text[0] == '\'' {
		text = text[1 : len(text)-1]
		if bytes.ContainsAny(text, `\"'`) {
			r.refuse()
		}
		r.text(text)
		return
	}
	if kindOf(text) != aText {
		r.refuse()
	}
	r.text(text)
}

// text writes a JSON string.
func (r *reader) text(text []byte) {
	r.out = append(r.out, '"')
	r.escape(text)
	r.out = append(r.out, '"')
}

// escapes are the escapes of JSON.
var escapes = ['\\' + 1][]byte{'"': []byte(`\"`), '\\': []byte(`\\`), '\t': []byte(`\t`), '\n': []byte(`\n`), '\r': []byte(`\r`),
	'\b': []byte(`\b`), '\f': []byte(`\f`), 0x00: []byte(`\u0000`)}

// escape writes a part of a JSON string.
func (r *reader) escape(text []byte) {
	begin := 0
	for i, c := range text {
		if c > '\\' {
			continue
		}
		if escaped := escapes[c]; escaped != nil {
			r.out = append(append(r.out, text[begin:i]...), escaped...)
			begin = i + 1
		} else if c < ' ' {
			r.refuse()
		}
	}
	r.out = append(r.out, text[begin:]...)
}
