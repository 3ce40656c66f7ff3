// Package rawjson reads JSON in place, without copying or decoding it. It is for reading a few fields of large documents.
// It refuses every form that it does not know, and callers then use encoding/json.
package rawjson

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math/bits"
)

// MaxDepth is how deep values of a catalog may nest. encoding/json allows 10,000 levels, and indents them: a megabyte of brackets becomes ten
// gigabytes.
const MaxDepth = 100

// Scanner reads a JSON text value by value. Once it refuses something it has failed, and every further call does nothing.
type Scanner struct {
	data   []byte
	pos    int
	depth  int
	failed bool
}

// Scan returns a Scanner at the beginning of a text.
func Scan(data []byte) *Scanner { return &Scanner{data: data} }

// Valid reports whether data is one JSON value. It may return false for one that nests very deep.
func Valid(data []byte) bool {
	s := Scan(data)
	s.Skip()
	return s.End()
}

// IsDeep reports whether a text, which must be JSON, nests deeper than MaxDepth.
func IsDeep(data []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == ']', c == '}':
			depth--
		}
	}
	return false
}

// End reports whether the whole text was read without a failure.
func (s *Scanner) End() bool {
	s.space()
	return !s.failed && s.pos == len(s.data)
}

// Fail makes the Scanner fail, because its caller refuses a value.
func (s *Scanner) Fail() { s.failed = true }

// space skips white space and returns the byte after it, or 0 at the end of the text.
func (s *Scanner) space() byte {
	if s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return s.data[s.pos]
	}
	return s.skipSpace()
}

func (s *Scanner) skipSpace() byte {
	data, i := s.data, s.pos
	for ; i < len(data); i++ {
		switch c := data[i]; c {
		case ' ', '\t', '\r':
		case '\n':
			i += Indentation(data[i+1:])
		default:
			s.pos = i
			return c
		}
	}
	s.pos = i
	return 0
}

// Indentation returns the number of spaces that a line begins with, rounded down to a multiple of eight. It compares eight
// bytes at a time, because much of a catalog is indentation.
func Indentation(line []byte) (spaces int) {
	for spaces+8 <= len(line) && binary.LittleEndian.Uint64(line[spaces:]) == ' '*ones {
		spaces += 8
	}
	return spaces
}

// expect reads one byte.
func (s *Scanner) expect(c byte) {
	if s.space() != c {
		s.failed = true
	}
	s.pos++
}

// Object reads an object and calls field for each key; field must read the value. Keys with escapes are refused. The key
// is valid until field returns.
func (s *Scanner) Object(field func(key []byte)) {
	s.list('{', '}', func() {
		if s.space() != '"' {
			s.failed = true
			return
		}
		key, escaped := s.text()
		if escaped {
			s.failed = true
		}
		s.expect(':')
		if !s.failed {
			field(key)
		}
	})
}

// Array reads an array and calls element for each element; element must read it.
func (s *Scanner) Array(element func()) { s.list('[', ']', element) }

// list reads items separated by commas between two brackets.
func (s *Scanner) list(open, end byte, item func()) {
	s.expect(open)
	if s.depth++; s.depth > MaxDepth {
		s.failed = true
	}
	for first := true; !s.failed; first = false {
		switch c := s.space(); {
		case first && c == end:
		case first:
			item()
			continue
		case c == ',':
			s.pos++
			item()
			continue
		case c != end:
			s.failed = true
		}
		s.pos++
		break
	}
	s.depth--
}

// Skip reads a value of any kind.
func (s *Scanner) Skip() {
	if s.failed {
		return
	}
	switch c := s.space(); c {
	case '{':
		s.Object(func([]byte) { s.Skip() })
	case '[':
		s.Array(s.Skip)
	case '"':
		s.text()
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		s.number()
	}
}

// Raw reads a value of any kind and returns its text, which is a part of the Scanner's.
func (s *Scanner) Raw() []byte {
	s.space()
	begin := s.pos
	if s.Skip(); s.failed {
		return nil
	}
	return s.data[begin:s.pos]
}

// String reads a string and returns its value as encoding/json would.
func (s *Scanner) String() string {
	if s.failed || s.space() != '"' {
		s.failed = true
		return ""
	}
	begin := s.pos
	text, escaped := s.text()
	if s.failed {
		return ""
	}
	if !escaped && isASCII(text) {
		return string(text)
	}
	var value string
	if json.Unmarshal(s.data[begin:s.pos], &value) != nil {
		s.failed = true
	}
	return value
}

// Base64 reads a string in base64 and appends the decoded bytes to a buffer.
func (s *Scanner) Base64(buffer []byte) []byte {
	if s.failed || s.space() != '"' {
		s.failed = true
		return buffer
	}
	encoded, escaped := s.text()
	if s.failed || escaped {
		s.failed = true
		return buffer
	}
	decoded, err := base64.StdEncoding.AppendDecode(buffer, encoded)
	if err != nil {
		s.failed = true
	}
	return decoded
}

// Null reads null if it comes next, and reports whether it did.
func (s *Scanner) Null() bool {
	if s.failed || s.space() != 'n' {
		return false
	}
	s.word("null")
	return true
}

func (s *Scanner) word(w string) {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(w)) {
		s.failed = true
		return
	}
	s.pos += len(w)
}

// number reads a number, by the grammar of JSON.
func (s *Scanner) number() {
	if s.peek() == '-' {
		s.pos++
	}
	if s.peek() == '0' {
		s.pos++
	} else {
		s.digits()
	}
	if s.peek() == '.' {
		s.pos++
		s.digits()
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		s.digits()
	}
}

func (s *Scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *Scanner) digits() {
	begin := s.pos
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.pos++
	}
	if s.pos == begin {
		s.failed = true
	}
}

// text reads a string and returns the text between its quotes, and whether that has escapes.
func (s *Scanner) text() (text []byte, escaped bool) {
	begin := s.pos + 1
	for i := begin; ; {
		i = special(s.data, i)
		if i == len(s.data) || s.data[i] < ' ' {
			s.failed = true
			return nil, false
		}
		if s.data[i] == '"' {
			s.pos = i + 1
			return s.data[begin:i], escaped
		}
		escaped = true
		length := escape(s.data[i:])
		if length == 0 {
			s.failed = true
			return nil, false
		}
		i += length
	}
}

// escape returns the length of the escape at the beginning of a string, or 0 if it is not valid.
func escape(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(text) < 6 {
			return 0
		}
		for _, c := range text[2:6] {
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special returns the offset, at i or after it, of the next quote, backslash or control character,
// or the length of data. It compares eight bytes at a time, because most of a catalog is strings, and 32 once a string is long.
func special(data []byte, i int) int {
	for near := min(i+32, len(data)); i+8 <= near; i += 8 {
		if found := specials(data[i:]); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i+32 <= len(data); i += 32 {
		d := data[i : i+32]
		if specials(d)|specials(d[8:])|specials(d[16:])|specials(d[24:]) != 0 {
			break
		}
	}
	for ; i+8 <= len(data); i += 8 {
		if found := specials(data[i:]); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(data); i++ {
		if c := data[i]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return i
}

// specials sets the highest bit of each of the first eight bytes that is a quote, a backslash or a control character. It may set the bits
// of bytes after the first such one, too.
func specials(data []byte) uint64 {
	x := binary.LittleEndian.Uint64(data)
	quote, backslash := x^'"'*ones, x^'\\'*ones
	return ((quote - ones) | (backslash - ones) | (x - ' '*ones)) & ^x & highs
}

func isASCII(text []byte) bool {
	for len(text) >= 8 {
		if binary.LittleEndian.Uint64(text)&highs != 0 {
			return false
		}
		text = text[8:]
	}
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
