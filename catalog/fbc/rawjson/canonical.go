package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Canonical returns a value in the form that equal values share. Text that is not JSON is returned unchanged.
func Canonical(value []byte) []byte {
	s := Scan(value)
	if written := s.Append(nil, Style{}); s.End() {
		return written
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber() // so that no digits are lost
	var decoded any
	if decoder.Decode(&decoded) != nil {
		return value
	}
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(decoded) // never fails for what was decoded
	return bytes.TrimSpace(written.Bytes())
}

// Style says how Append writes.
type Style struct {
	// Indent is the number of spaces per level. If it is 0, everything is on one line.
	Indent int
	// Level is the number of levels that the value is already indented by.
	Level int
}

// Append reads a value and appends it to a buffer in the form that encoding/json gives equal values: with sorted keys, the
// last of two equal keys, and only necessary escapes. Unlike encoding/json, it keeps all digits of integers of any length.
func (s *Scanner) Append(buffer []byte, style Style) []byte {
	if s.failed {
		return buffer
	}
	switch s.space() {
	case '{':
		return s.appendObject(buffer, style)
	case '[':
		return s.appendArray(buffer, style)
	case '"':
		return s.appendString(buffer)
	case 't', 'f', 'n':
		return append(buffer, s.Raw()...)
	}
	return s.appendNumber(buffer)
}

// blank is a line break and the indentation of a deep level.
const blank = "\n                                                                                                                                "

// newline appends the line break after a bracket or a comma.
func (style Style) newline(buffer []byte) []byte {
	if style.Indent == 0 {
		return buffer
	}
	spaces := style.Indent * style.Level
	buffer = append(buffer, blank[:1+min(spaces, len(blank)-1)]...)
	for range spaces - (len(blank) - 1) {
		buffer = append(buffer, ' ')
	}
	return buffer
}

func (s *Scanner) appendArray(buffer []byte, style Style) []byte {
	inner := style
	inner.Level++
	buffer = append(buffer, '[')
	empty := true
	s.Array(func() {
		if !empty {
			buffer = append(buffer, ',')
		}
		empty = false
		buffer = s.Append(inner.newline(buffer), inner)
	})
	if !empty {
		buffer = style.newline(buffer)
	}
	return append(buffer, ']')
}

// member is a key of an object, and where it and its value are in a buffer.
type member struct {
	key        []byte
	begin, end int
}

func (s *Scanner) appendObject(buffer []byte, style Style) []byte {
	inner := style
	inner.Level++
	buffer = append(buffer, '{')
	first := len(buffer)
	var few [16]member
	members, sorted := few[:0], true
	s.Object(func(key []byte) {
		begin := len(buffer)
		buffer = append(inner.newline(buffer), '"')
		buffer = append(buffer, key...)
		buffer = append(buffer, '"', ':')
		if style.Indent > 0 {
			buffer = append(buffer, ' ')
		}
		buffer = append(s.Append(buffer, inner), ',')
		if !isPlain(key) {
			s.failed = true
		}
		if n := len(members); n > 0 && bytes.Compare(members[n-1].key, key) >= 0 {
			sorted = false
		}
		members = append(members, member{key, begin, len(buffer)})
	})
	if s.failed || len(members) == 0 {
		return append(buffer, '}')
	}
	if !sorted {
		buffer = sortMembers(buffer, first, members)
	}
	buffer = buffer[:len(buffer)-1] // the last comma
	return append(style.newline(buffer), '}')
}

// sortMembers sorts the members of an object, which are in a buffer from first on, by key. Of members with equal keys it
// keeps the last.
func sortMembers(buffer []byte, first int, members []member) []byte {
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	end := len(buffer)
	buffer = append(buffer, buffer[first:]...) // a copy, which the sorted members cannot reach
	unsorted := buffer[end:]
	buffer = buffer[:first]
	for i, m := range members {
		if i+1 < len(members) && bytes.Equal(m.key, members[i+1].key) {
			continue
		}
		buffer = append(buffer, unsorted[m.begin-first:m.end-first]...)
	}
	return buffer
}

// isPlain reports whether encoding/json writes a text without adding escapes.
func isPlain(text []byte) bool {
	return isASCII(text) || utf8.Valid(text) && !bytes.Contains(text, []byte("\u2028")) && !bytes.Contains(text, []byte("\u2029"))
}

func (s *Scanner) appendString(buffer []byte) []byte {
	begin := s.pos
	text, escaped := s.text()
	if s.failed {
		return buffer
	}
	raw := s.data[begin:s.pos]
	if isPlain(text) && (!escaped || !hasUnusualEscape(text)) {
		return append(buffer, raw...)
	}
	var value string
	if json.Unmarshal(raw, &value) != nil {
		s.failed = true
		return buffer
	}
	return AppendString(buffer, value)
}

// hasUnusualEscape reports whether a text has escapes that encoding/json would not write.
func hasUnusualEscape(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return false
		}
		if c := text[i+1]; c == '/' || c == 'u' {
			return true
		}
		text = text[i+2:]
	}
}

// AppendString appends a string like encoding/json, without escaping HTML.
func AppendString(buffer []byte, value string) []byte {
	if raw := []byte(value); special(raw, 0) == len(raw) && isPlain(raw) {
		return append(append(append(buffer, '"'), value...), '"')
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // never fails for a string
	return append(buffer, strings.TrimSuffix(text.String(), "\n")...)
}

func (s *Scanner) appendNumber(buffer []byte) []byte {
	number := s.Raw()
	if s.failed || bytes.IndexFunc(number, func(r rune) bool { return r == '.' || r == 'e' || r == 'E' }) < 0 {
		return append(buffer, number...)
	}
	var value float64
	if json.Unmarshal(number, &value) != nil {
		s.failed = true
		return buffer
	}
	text, err := json.Marshal(value)
	if err != nil {
		s.failed = true
	}
	return append(buffer, text...)
}
