package rawyaml

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// scalar reads the scalar at the position, up to the end of a line. parent is the indentation of the mapping or sequence that the scalar
// belongs to, here and in the functions below.
func (r *reader) scalar(parent int) {
	switch c := r.peek(0); c {
	case '|':
		r.literal(parent)
	case '"', '\'':
		r.quoted(c, parent)
	case '[', '{':
		r.empty()
	case '&', '*', '!', '%', '@', '`', '>', ']', '}', ',', '?', ':', '#':
		r.refuse()
	default:
		r.plain(parent)
	}
}

// empty reads an empty list or object, the only flow collections that tools write.
func (r *reader) empty() {
	text := trimComment(r.rest())
	if string(text) != "[]" && string(text) != "{}" {
		r.refuse()
		return
	}
	r.out = append(r.out, text...)
	r.pos += len(r.rest())
}

// trimComment drops a comment and the spaces before it.
func trimComment(text []byte) []byte {
	if comment := bytes.Index(text, []byte(" #")); comment >= 0 {
		text = text[:comment]
	}
	return bytes.TrimRight(text, " ")
}

// plain reads a scalar without quotes. It continues on the following lines that are indented.
func (r *reader) plain(parent int) {
	first := r.rest()
	text := trimComment(first)
	if r.atItem() || bytes.Contains(text, []byte(": ")) || bytes.HasSuffix(text, []byte(":")) || bytes.ContainsRune(first, '\t') {
		r.refuse()
		return
	}
	r.pos += len(first)
	if len(text) < len(bytes.TrimRight(first, " ")) { // no text continues after a comment
		if r.follows(parent) {
			r.refuse()
		}
	} else if r.follows(parent) {
		r.folded(text, parent)
		return
	}
	switch kindOf(text) {
	case aText:
		r.text(text)
	case aWord:
		r.out = append(r.out, text...)
	case aNull:
		r.out = append(r.out, "null"...)
	default:
		r.refuse()
	}
}

// follows reports whether the next line continues the scalar that seems to end here.
func (r *reader) follows(parent int) bool {
	before := r.pos
	column := r.nextLine()
	r.pos = before
	return column > parent
}

// folded reads the lines of a plain scalar after the first one. It joins them as fold does.
func (r *reader) folded(first []byte, parent int) {
	r.out = append(r.out, '"')
	r.escape(first)
	for !r.refused && r.follows(parent) {
		breaks := r.breaks()
		text := bytes.TrimRight(r.rest(), " ")
		if bytes.Contains(text, []byte(": ")) || bytes.HasSuffix(text, []byte(":")) || bytes.Contains(text, []byte(" #")) || r.peek(0) == '#' || bytes.IndexByte(text, '\t') >= 0 {
			r.refuse()
		}
		r.fold(breaks)
		r.escape(text)
		r.pos += len(r.rest())
	}
	r.out = append(r.out, '"')
}

// breaks goes to the first character of the next line that is not empty, and returns the number of line ends before it.
func (r *reader) breaks() (count int) {
	for ; r.pos < len(r.source); r.pos++ {
		switch r.source[r.pos] {
		case '\n':
			count++
		case ' ':
		default:
			return count
		}
	}
	return count
}

// fold writes a space for a single line end within a scalar. For several line ends, it writes all but one.
func (r *reader) fold(breaks int) {
	if breaks == 1 {
		r.out = append(r.out, ' ')
		return
	}
	for range breaks - 1 {
		r.out = append(r.out, `\n`...)
	}
}

// quoted reads a scalar in quotes.
func (r *reader) quoted(quote byte, parent int) {
	r.pos++
	r.out = append(r.out, '"')
	for !r.refused {
		end := bytes.IndexAny(r.source[r.pos:], map[byte]string{'"': "\"\\\n", '\'': "'\n"}[quote])
		if end < 0 {
			r.refuse()
			return
		}
		text := r.source[r.pos : r.pos+end]
		r.pos += end
		switch c := r.source[r.pos]; {
		case c == '\n':
			if bytes.HasSuffix(text, []byte("\t")) {
				r.refuse()
			}
			r.escape(bytes.TrimRight(text, " "))
			r.quotedBreak(parent)
		case c == '\\':
			r.escape(text)
			r.unescape(parent)
		case r.peek(1) == '\'' && c == '\'':
			r.escape(text)
			r.out = append(r.out, '\'')
			r.pos += 2
		default:
			r.escape(text)
			r.pos++
			r.out = append(r.out, '"')
			if trailing := r.rest(); len(trimComment(trailing)) > 0 {
				r.refuse() // such as the colon of a key
			}
			return
		}
	}
}

// quotedBreak reads line ends within quotes.
func (r *reader) quotedBreak(parent int) {
	breaks := r.breaks()
	begin := bytes.LastIndexByte(r.source[:r.pos], '\n')
	if r.pos-begin-1 <= parent || r.peek(0) == '\t' || bytes.HasPrefix(r.source[begin+1:], []byte("...")) {
		r.refuse()
	}
	r.fold(breaks)
}

// unescaped maps the usual escapes in double quotes to JSON.
var unescaped = map[byte]string{'n': `\n`, 't': `\t`, 'r': `\r`, '"': `\"`, '\\': `\\`, '/': `/`, ' ': ` `}

// unescape reads an escape within double quotes.
func (r *reader) unescape(parent int) {
	c := r.peek(1)
	if c == '\n' { // the scalar continues on the next line
		r.pos++
		if r.breaks() != 1 {
			r.refuse()
		}
		begin := bytes.LastIndexByte(r.source[:r.pos], '\n')
		if r.pos-begin-1 <= parent || r.peek(0) == '\t' {
			r.refuse()
		}
		return
	}
	if digits := map[byte]int{'u': 4, 'U': 8}[c]; digits > 0 {
		r.unescapeRune(digits)
		return
	}
	meaning, usual := unescaped[c]
	if !usual {
		r.refuse()
		return
	}
	r.out = append(r.out, meaning...)
	r.pos += 2
}

// unescapeRune reads an escape of a number of hexadecimal digits.
func (r *reader) unescapeRune(digits int) {
	end := r.pos + 2 + digits
	if end > len(r.source) {
		r.refuse()
		return
	}
	char, err := strconv.ParseUint(string(r.source[r.pos+2:end]), 16, 32)
	if err != nil || char < 0xa0 || !utf8.ValidRune(rune(char)) {
		r.refuse()
		return
	}
	r.out = utf8.AppendRune(r.out, rune(char))
	r.pos = end
}

// literal reads a literal block scalar, which keeps its line ends.
func (r *reader) literal(parent int) {
	header := string(trimComment(r.rest()))
	r.pos += len(r.rest())
	column := -1
	if len(header) > 1 && '1' <= header[1] && header[1] <= '9' { // it says by how much the text is indented
		column = parent + int(header[1]-'0')
		header = header[:1] + header[2:]
	}
	if header != "|" && header != "|-" && header != "|+" {
		r.refuse()
		return
	}
	empty, filled := 0, false // how many line ends are kept if more text follows; whether there is text
	r.out = append(r.out, '"')
	for r.pos < len(r.source) {
		r.pos++ // the line's end
		text := r.rest()
		indent := len(text) - len(bytes.TrimLeft(text, " "))
		if indent == len(text) && (column < 0 || indent <= column) {
			if column < 0 && indent > parent+1 { // an empty line might say how far the block is indented
				r.refuse()
			}
			if r.pos == len(r.source) {
				break
			}
			empty++
			r.pos += len(text)
			continue
		}
		if indent <= parent {
			break
		}
		if indent < column {
			r.refuse()
			break
		}
		if column < 0 {
			if column = indent; text[indent] == '\t' {
				r.refuse()
			}
		}
		for ; empty > 0; empty-- {
			r.out = append(r.out, `\n`...)
		}
		r.escape(text[column:])
		r.pos += len(text)
		empty, filled = 1, true
	}
	// Rare forms are refused: an empty text, no line end at the end of the file, or several line ends that are kept.
	if !filled || r.source[len(r.source)-1] != '\n' || header == "|+" && empty > 1 {
		r.refuse()
	}
	if header != "|-" {
		r.out = append(r.out, `\n`...)
	}
	r.out = append(r.out, '"')
}

// kind is the type of a plain scalar.
type kind int

const (
	unsure kind = iota
	aText
	aWord // true, false or an integer: the same in JSON
	aNull
)

// others are texts, in lower case, that some version of YAML does not read as strings.
var others = map[string]bool{}

func init() {
	for _, word := range []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"} {
		others[word] = true
	}
}

// kindOf returns the type of a plain scalar, or unsure.
func kindOf(text []byte) kind {
	switch string(text) {
	case "true", "false":
		return aWord
	case "null", "~":
		return aNull
	case "":
		return unsure
	}
	switch c := text[0]; {
	case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '/' || c == '$' || c == '(' || c >= 0x80:
		if len(text) <= 5 && others[string(bytes.ToLower(text))] {
			return unsure
		}
		return aText
	case '0' <= c && c <= '9':
		return digits(text)
	case c == '-':
		return dashed(text)
	}
	return unsure
}

// digits is kindOf for a scalar that begins with a digit.
func digits(text []byte) kind {
	dots, other, onlyDigits := 0, false, true
	exponent := bytes.ContainsAny(text, "eE")
	for _, c := range text {
		switch {
		case '0' <= c && c <= '9':
			continue
		case c == '.':
			dots++
		case c == '/' || c == ':' || c == ' ', c == '-' && !exponent, isLetter(c) && noNumberHas(c, text[0] == '0'):
			other = true
		}
		onlyDigits = false
	}
	switch {
	case onlyDigits && len(text) <= 15 && (text[0] != '0' || len(text) == 1):
		return aWord
	case dots >= 2 || other:
		return aText
	}
	return unsure
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// noNumberHas reports whether a letter rules out a number: numbers may have an exponent and, after a leading zero, digits
// to another base.
func noNumberHas(letter byte, zero bool) bool {
	if zero {
		return bytes.IndexByte([]byte("abcdefoxABCDEFOX"), letter) < 0
	}
	return letter != 'e' && letter != 'E'
}

// dashed is kindOf for a scalar that begins with a dash.
func dashed(text []byte) kind {
	if len(text) < 2 {
		return unsure
	}
	if c := text[1]; c == '-' && len(text) > 3 && text[2] != '-' || 'a' <= c && c <= 'z' {
		return aText
	}
	if digits(text[1:]) == aWord && text[1] != '0' {
		return aWord
	}
	return unsure
}

// isReadable reports whether all characters are allowed in YAML and none is a special line break.
func isReadable(source []byte) bool {
	for i := 0; i < len(source); {
		c := source[i]
		if c >= 0x80 {
			char, size := utf8.DecodeRune(source[i:])
			if char == utf8.RuneError && size == 1 || char < 0xa0 || char == 0x2028 || char == 0x2029 || char == 0xfeff || char == 0xfffe || char == 0xffff {
				return false
			}
			i += size
			continue
		}
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return false
		}
		i++
	}
	return true
}
