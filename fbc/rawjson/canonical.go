package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Canonical returns the one form that equal values have. What is no JSON stays as it is.
func Canonical(value []byte) []byte {
	s := Scan(value)
	if written := s.Append(nil, Style{}); s.End() {
		return written
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber() // so that no digit is lost
	var decoded any
	if decoder.Decode(&decoded) != nil {
		return value
	}
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(decoded) // what was decoded can be encoded
	return bytes.TrimSpace(written.Bytes())
}

// Style says how Append writes.
type Style struct {
	// Indent is how many spaces each level is indented by. If it is 0, all is on one line.
	Indent int
	// Level is how many levels the value is indented by already.
	Level int
}

// Append reads a value and appends it to a buffer in the one form that encoding/json gives to equal
// values: keys sorted, of two equal keys the last, and strings escaped only where it has to be. But
// integers stay as they are, however long.
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

// blank is a break and what a deep level is indented by.
const blank = "\n                                                                                                                                "

// newline appends the break between a bracket or a comma and what follows it.
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

// member is a key of an object, and where it stands in a buffer with its value.
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

// sortMembers puts the members of an object, which stand in a buffer from first on, in the order of
// their keys. Of those with equal keys the last stays.
func sortMembers(buffer []byte, first int, members []member) []byte {
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	unsorted := bytes.Clone(buffer[first:])
	buffer = buffer[:first]
	for i, m := range members {
		if i+1 < len(members) && bytes.Equal(m.key, members[i+1].key) {
			continue
		}
		buffer = append(buffer, unsorted[m.begin-first:m.end-first]...)
	}
	return buffer
}

// isPlain tells whether a text is written as it is, but for escapes in it.
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

// hasUnusualEscape tells whether a text has escapes that encoding/json would not write.
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

// AppendString appends a string as encoding/json writes it, with HTML as it is.
func AppendString(buffer []byte, value string) []byte {
	if raw := []byte(value); special(raw, 0) == len(raw) && isPlain(raw) {
		return append(append(append(buffer, '"'), value...), '"')
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // a string always can be
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
