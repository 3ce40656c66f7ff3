package boundedyaml

// The functions in this file locate faults in YAML that decoders report with a wrong position, or with none. They parse the source once
// more, which takes time only for faulty documents.

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Position returns the line and column of the byte at an offset. Both count from 1, and columns count characters.
func Position(source []byte, offset int) (line, column int) {
	before := source[:max(0, offset)]
	begin := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[begin:])
}

// Offset returns the offset of a line and column that a YAML decoder reported.
func Offset(source []byte, line, column int) int {
	return inLine(source, lineBegin(source, line), column)
}

// OffsetIn is like Offset, for a source whose lines are known.
func OffsetIn(source []byte, lines []int, line, column int) int {
	return inLine(source, lines[min(max(line, 1), len(lines))-1], column)
}

// inLine returns the offset of a column of the line that begins at an offset.
func inLine(source []byte, offset, column int) int {
	for range column - 1 {
		_, size := utf8.DecodeRune(source[offset:])
		offset += size
	}
	return offset
}

// afterBreak returns the offset after the next line break, or -1. YAML has more kinds of line breaks than other text files. A regular
// expression would account for a quarter of the time of checking a catalog with faults.
func afterBreak(source []byte, from int) int {
	for i := from; i < len(source); i++ {
		switch rest := source[i:]; {
		case rest[0] == '\n':
			return i + 1
		case rest[0] == '\r' && len(rest) > 1 && rest[1] == '\n':
			return i + 2
		case rest[0] == '\r':
			return i + 1
		case rest[0] == 0xc2 && len(rest) > 1 && rest[1] == 0x85: // U+0085
			return i + 2
		case rest[0] == 0xe2 && len(rest) > 2 && rest[1] == 0x80 && (rest[2] == 0xa8 || rest[2] == 0xa9): // U+2028 and U+2029
			return i + 3
		}
	}
	return -1
}

// Lines returns the offsets of all lines, as YAML decoders count them.
func Lines(source []byte) []int {
	begins := []int{0}
	for end := afterBreak(source, 0); end >= 0 && end < len(source); end = afterBreak(source, end) {
		begins = append(begins, end)
	}
	return begins
}

// lineBegin returns the offset of a line of the source, or of its last line if there are fewer. Lines count from 1.
func lineBegin(source []byte, line int) int {
	begin := 0
	for ; line > 1; line-- {
		end := afterBreak(source, begin)
		if end < 0 || end >= len(source) {
			break
		}
		begin = end
	}
	return begin
}

var yamlError = regexp.MustCompile(`^(?:error converting YAML to JSON: )?(?:yaml: )?(?:line (\d+): )?`)

// parserError matches errors of the YAML parser, as opposed to the scanner that it uses.
var parserError = regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key)|` +
	`^found (duplicate %|incompatible YAML|undefined tag)`)

// openBracket and openQuote match errors about brackets and quotes that are never closed. The errors give the place where
// parsing stopped, not the place of the bracket or quote.
var (
	openBracket = regexp.MustCompile(`^did not find expected ',' or`)
	openQuote   = regexp.MustCompile(`^found unexpected (end of stream|document indicator)|^could not find expected ':'`)
)

// Fault returns the fault of YAML that sigs.k8s.io/yaml rejects, and its offset. The line numbers of the decoder need corrections: they
// count from 1 in errors of its scanner and from 0 in errors of its parser, and are missing for the first line and in errors of later
// steps. The decoder reports no columns.
func Fault(source []byte, err error) (offset int, message string) {
	line, message := yamlErrorLine(err)
	// For a bracket or quote that is never closed, version 3 of the decoder reports where it began.
	parsed, parseErr := Parse(source)
	begin, _ := yamlErrorLine(parseErr)
	if begin == 0 {
		begin = line // version 3 reports no line
	}
	offset = -1
	switch {
	case parserError.MatchString(message):
		line++
	case openBracket.MatchString(message):
		line = min(line, begin) + 1
	case openQuote.MatchString(message):
		line = min(line, begin)
	case strings.HasPrefix(message, "control characters"), strings.Contains(message, "UTF-8"):
		offset = firstUnreadable(source)
	case strings.HasPrefix(message, "unknown anchor"):
		name := strings.Trim(strings.Fields(message)[2], "'")
		alias := regexp.MustCompile(`(?m)(?:^|[:?,\[{-])\s*(\*` + regexp.QuoteMeta(name) + `)(?:$|[\s,\]}])`)
		if match := alias.FindSubmatchIndex(source); match != nil { // otherwise the alias is at the beginning of the line
			offset = match[2]
		}
	case strings.HasPrefix(message, "invalid map key"), strings.HasPrefix(message, "unsupported map key"):
		message = "a key must be plain text, and not null, a mapping or a list; {{ }} of a template that was not filled in reads like one"
		if key := unusableKey(&parsed); key != nil {
			offset = Offset(source, key.Line, key.Column)
		}
	}
	if offset < 0 {
		offset = suspect(source, lineBegin(source, line), message)
	}
	return offset, message
}

// suspects match the part of a line that a message of the YAML decoder is about. The default is the first word of the line.
var suspects = []struct{ message, pattern *regexp.Regexp }{
	{regexp.MustCompile(`^mapping values are not allowed`), regexp.MustCompile(`:(?:[^:]|:\S)*?(:)(?:\s|$)`)},
	{regexp.MustCompile(`cannot start any token`), regexp.MustCompile("^ *(\t)")},
	{regexp.MustCompile(`cannot start any token`), regexp.MustCompile("(?:^|[\\s,\\[{])([@`%|>])")},
	{regexp.MustCompile(`tab character`), regexp.MustCompile("(\t)")},
	{regexp.MustCompile(`unexpected end of stream`), regexp.MustCompile(`(["'])`)},
	{openBracket, regexp.MustCompile(`([\[{])`)},
}

// suspect returns the offset of the text that a message is about. begin is the offset of its line.
func suspect(source []byte, begin int, message string) int {
	line, _, _ := bytes.Cut(source[begin:], []byte("\n"))
	for _, s := range suspects {
		if s.message.MatchString(message) {
			if match := s.pattern.FindSubmatchIndex(line); match != nil {
				return begin + match[2]
			}
		}
	}
	return begin + len(line) - len(bytes.TrimLeft(line, " \t"))
}

// unusableKey returns the first mapping key that is null, a mapping or a list.
func unusableKey(node *Node) *Node {
	for i, content := range node.Content {
		isKey, key := node.Kind == MappingNode && i%2 == 0, content
		if key.Kind == AliasNode {
			key = key.Alias
		}
		if isKey && (key.Kind != ScalarNode || key.ShortTag() == "!!null") {
			return content
		}
		if key := unusableKey(content); key != nil {
			return key
		}
	}
	return nil
}

// yamlErrorLine splits an error of a YAML decoder into the line, or 0 if the error names none, and the message.
func yamlErrorLine(err error) (line int, message string) {
	if err == nil {
		return 0, ""
	}
	message = strings.ReplaceAll(err.Error(), "\n", " ")
	if prefix := yamlError.FindStringSubmatch(message); prefix != nil {
		line, _ = strconv.Atoi(prefix[1])
		message = message[len(prefix[0]):]
	}
	return line, message
}

// firstUnreadable returns the offset of the first byte that is not allowed in YAML.
func firstUnreadable(source []byte) int {
	for i := 0; i < len(source); {
		r, size := utf8.DecodeRune(source[i:])
		if r == utf8.RuneError && size == 1 || r == 0x7f || r < ' ' && r != '\t' && r != '\n' && r != '\r' {
			return i
		}
		i += size
	}
	return 0
}
