package document

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"

	"github.com/berth-csi/berth/catalog/fbc/rawjson"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
)

// Section is a part of a file that holds one document, not decoded yet. A section with a fault may hold none, or several.
type Section struct {
	Span
	// Source is the text. It is valid until Splitter.Yield returns.
	Source []byte
}

// splitter cuts a file into sections.
type splitter struct {
	*window
	path  string
	yield func(Section) bool
	fault func(*findings.Finding)
	// salvaging says that the text is a rest of malformed JSON: brackets and quotes alone do not show where an object ends.
	salvaging bool
}

// Splitter cuts files into sections, one file at a time. It reuses its memory for the next file.
type Splitter struct {
	// Yield receives the sections in order. If it returns false, splitting stops.
	Yield func(Section) bool
	// Fault receives findings about text that cannot be cut. Splitting continues after it.
	Fault func(*findings.Finding)

	buffer []byte
}

// Split cuts a file. It fails if the file cannot be read.
func (s *Splitter) Split(path string, file io.Reader) error {
	cut := splitter{window: newWindow(file, s.buffer), path: path, yield: s.Yield, fault: s.Fault}
	cut.split()
	s.buffer = cut.buffer
	return cut.failure()
}

func (s *splitter) split() {
	if s.firstByte() == '{' {
		s.json(0)
	} else {
		s.yaml()
	}
}

// firstByte returns the first byte that is not white space, or 0. It does not consume anything, because white space
// matters in YAML.
func (s *splitter) firstByte() byte {
	for {
		if rest := bytes.TrimSpace(s.text()); len(rest) > 0 {
			return rest[0]
		}
		if !s.more() {
			return 0
		}
	}
}

// section consumes n bytes as a section.
func (s *splitter) section(n int) Section {
	section := Section{Span: s.span()}
	section.Length = n
	section.Source = s.take(n)
	return section
}

// span returns the position of the text, without its length.
func (s *splitter) span() Span {
	return Span{File: s.path, Line: s.line, Indent: int(s.offset - s.lineBegin), Offset: s.offset}
}

// tooLong reports that the next document is too long.
func (s *splitter) tooLong() {
	s.fault(Size.Finding(s.path, "the document that begins here is longer than %d MiB; neither it nor what follows it was read",
		maxLength>>20).At(s.line, 0))
}

// tooBroken reports that too many JSON objects are malformed. To find the end of one, the whole rest of the file is read.
func (s *splitter) tooBroken() {
	s.fault(Syntax.Finding(s.path, "malformed JSON: %d faults before this line; neither the document that begins here nor what follows it was read: correct them first",
		MaxFaults).At(s.line, 0))
}

// certain is the number of JSON objects after which OLM's tools treat a file as JSON. Until then it may still be YAML: a
// flow mapping looks like JSON, and "---" lines may separate JSON objects.
const certain = 2

// json cuts a stream of JSON objects. count is the number of objects that were already cut.
func (s *splitter) json(count int) {
	for broken := 0; ; count++ {
		if s.skipSpace() == 0 {
			return
		}
		length, ended := s.objectLength()
		ended = ended && !(s.salvaging && !json.Valid(s.text()[:length]))
		if count < certain && !(ended && rawjson.Valid(s.text()[:length])) && s.nextIsYAML() {
			s.yaml()
			return
		}
		if !ended {
			if broken++; broken > MaxFaults {
				s.tooBroken()
				return
			}
			if !s.skipBroken() {
				return
			}
		}
		if ended && !s.yield(s.jsonSection(length)) {
			return
		}
	}
}

func (s *splitter) jsonSection(length int) Section {
	section := s.section(length)
	section.JSON = true
	return section
}

// objectLength returns the length of the JSON object at the beginning of the text, by brackets and quotes alone. It
// returns false if there is no object, or a bracket or quote does not close.
func (s *splitter) objectLength() (length int, ended bool) {
	var b brackets
	for s.text()[0] == '{' {
		if length, ended = b.close(s.text()); ended || !s.more() {
			return length, ended
		}
	}
	return 0, false
}

// brackets is the state of matching the brackets and quotes of a JSON object.
type brackets struct {
	seen   int // number of bytes read
	depth  int // number of open brackets
	quoted bool
}

// close reads on to the end of the object and returns its length. It returns false if the text ends before that.
func (b *brackets) close(text []byte) (length int, ended bool) {
	for i := b.seen; i < len(text); i++ {
		if b.quoted {
			quote := bytes.IndexByte(text[i:], '"')
			if quote < 0 {
				break
			}
			i += quote
			b.quoted = isEscaped(text, i)
			continue
		}
		switch text[i] {
		case '\n':
			i += rawjson.Indentation(text[i+1:])
		case '"':
			b.quoted = true
		case '{', '[':
			b.depth++
		case '}', ']':
			if b.depth--; b.depth == 0 {
				return i + 1, true
			}
		}
	}
	b.seen = len(text)
	return 0, false
}

// isEscaped reports whether there is an odd number of backslashes before text[i].
func isEscaped(text []byte, i int) bool {
	return (i-len(bytes.TrimRight(text[:i], `\`)))%2 == 1
}

// skipBroken reports the fault of the JSON that comes next, and consumes it up to the probable beginning of the next
// object. It returns false if there is no next object.
func (s *splitter) skipBroken() bool {
	for s.more() { // up to the greatest length of a document
	}
	if s.failure() != nil {
		return false
	}
	fault, offset, ended := Document{Span: s.span(), Source: s.text()}.jsonFault()
	if !ended && s.err == nil {
		s.tooLong()
		return false
	}
	s.fault(fault)
	next := nextObject(s.text(), offset)
	if next < 0 {
		return false
	}
	s.take(next)
	return true
}

// nextObject returns the offset of the first line that begins with a brace, as a document does, at or after an offset. It ignores the first
// line of the text, and returns a negative number if there is no such line.
func nextObject(text []byte, offset int) int {
	offset = max(0, offset-1)
	found := bytes.Index(text[offset:], []byte("\n{"))
	if found < 0 {
		return -1
	}
	return offset + found + 1
}

// longestFlow is the maximum length in bytes of a YAML document that begins like JSON.
const longestFlow = 1 << 20

// nextIsYAML reports whether the text up to the next separator is a YAML document.
func (s *splitter) nextIsYAML() bool {
	end := s.untilSeparator()
	text := s.text()[:end]
	if leadingSeparator.Match(text) {
		return true
	}
	if len(text) > longestFlow {
		return false
	}
	_, _, err := yamlToJSON(nil, text)
	return err == nil && boundedyaml.IsSingle(text)
}

const separator = "---"

var leadingSeparator = regexp.MustCompile(`^---(\s|$)`)

// untilSeparator returns the number of bytes before the next line that begins like a separator, or before the end of the
// file. A separator at the beginning of the text does not count.
func (s *splitter) untilSeparator() int {
	for seen := 0; ; {
		text := s.text()
		if found := bytes.Index(text[seen:], []byte("\n"+separator)); found >= 0 {
			return seen + found + 1
		}
		seen = max(0, len(text)-len(separator))
		if !s.more() {
			return len(s.text())
		}
	}
}

// yaml cuts YAML documents.
func (s *splitter) yaml() {
	torn := false // whether the first line of the next document is missing
	for {
		// A separator with nothing before it belongs to the document that follows.
		if s.atSeparator() {
			torn = s.isTorn()
		}
		length := s.untilSeparator()
		if length > maxLength {
			s.tooLong()
			return
		}
		section := s.section(length)
		if length > 0 && !torn && !s.yield(section.withoutSeparator()) {
			return
		}
		if !s.atSeparator() { // only at the end of the file
			return
		}
		torn = s.isTorn()
		s.take(s.lineLength())
	}
}

// withoutSeparator drops the separator at the beginning of a document, unless nothing follows it.
func (s Section) withoutSeparator() Section {
	first, rest, _ := bytes.Cut(s.Source, newline)
	if leadingSeparator.Match(first) && len(rest) > 0 {
		dropped := len(s.Source) - len(rest)
		s.Source, s.Line, s.Offset, s.Length = rest, s.Line+1, s.Offset+int64(dropped), s.Length-dropped
	}
	return s
}

func (s *splitter) atSeparator() bool {
	for len(s.text()) < len(separator) && s.more() {
	}
	return bytes.HasPrefix(s.text(), []byte(separator))
}

// isTorn reports whether the separator at the beginning of the text has something else on its line. The first line of its
// document is then missing.
func (s *splitter) isTorn() bool {
	end := s.lineLength()
	line := s.text()[len(separator):end]
	rest := bytes.TrimSpace(line)
	if len(rest) == 0 || rest[0] == '#' {
		return false
	}
	s.fault(Syntax.Finding(s.path, "malformed YAML: %q follows the separator %s on its line; only a comment may", rest, separator).
		At(s.line, len(separator)+1+bytes.Index(line, rest)))
	return true
}

// lineLength returns the length of the first line of the text, its line end included.
func (s *splitter) lineLength() int {
	for {
		text := s.text()
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			return end + 1
		}
		if !s.more() {
			return len(s.text())
		}
	}
}
