// Package yamlplace finds out where in YAML something stands: a fault that decoders tell of without saying where, or what
// they place by lines and columns. It costs a second look at the text; only faulty ones pay for it.
package yamlplace

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/berth-csi/berth/yaml"
)

// Of returns the line and column of the byte at an offset, both counted from 1, and columns in characters.
func Of(source []byte, offset int) (line, column int) {
	before := source[:max(0, offset)]
	begin := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[begin:])
}

// Offset returns the offset of what a YAML decoder places by line and column.
func Offset(source []byte, line, column int) int {
	offset := lineBegin(source, line)
	for range column - 1 {
		_, size := utf8.DecodeRune(source[offset:])
		offset += size
	}
	return offset
}

// yamlBreak matches what ends a line for YAML, which is more than what does in a file.
var yamlBreak = regexp.MustCompile(`\r\n|[\r\n\x{85}\x{2028}\x{2029}]`)

// lineBegin returns the offset of a line of the source, counted from 1 as YAML does, or of its last one.
func lineBegin(source []byte, line int) int {
	begin := 0
	for _, end := range yamlBreak.FindAllIndex(source, max(0, line-1)) {
		if end[1] < len(source) {
			begin = end[1]
		}
	}
	return begin
}

var yamlError = regexp.MustCompile(`^(?:error converting YAML to JSON: )?(?:yaml: )?(?:line (\d+): )?`)

// parserError matches what the YAML parser says, as opposed to the scanner below it.
var parserError = regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key)|` +
	`^found (duplicate %|incompatible YAML|undefined tag)`)

// openBracket matches what the parser says, and openQuote and the like what the scanner says, of what has no end. They say
// it where they give up.
var (
	openBracket = regexp.MustCompile(`^did not find expected ',' or`)
	openQuote   = regexp.MustCompile(`^found unexpected (end of stream|document indicator)|^could not find expected ':'`)
)

// Fault returns what is wrong with YAML that sigs.k8s.io/yaml refuses, and the offset of that. What the decoder itself says
// of lines is of little use: it counts from 1 in what its scanner refuses, from 0 in what its parser refuses, and names
// no line for the first one and for what it refuses later. It says nothing of columns.
func Fault(source []byte, err error) (offset int, message string) {
	line, message := yamlErrorLine(err)
	// The newer decoder tells where what has no end began, counting likewise.
	parsed, parseErr := yaml.Parse(source)
	begin, _ := yamlErrorLine(parseErr)
	if begin == 0 {
		begin = line // it does not tell
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
		if match := alias.FindSubmatchIndex(source); match != nil { // else the text begins it
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

// suspects match what, in a line, the YAML decoder's message is about. Where none matches, it is the
// first word of the line.
var suspects = []struct{ message, pattern *regexp.Regexp }{
	{regexp.MustCompile(`^mapping values are not allowed`), regexp.MustCompile(`:(?:[^:]|:\S)*?(:)(?:\s|$)`)},
	{regexp.MustCompile(`cannot start any token`), regexp.MustCompile("^ *(\t)")},
	{regexp.MustCompile(`cannot start any token`), regexp.MustCompile("(?:^|[\\s,\\[{])([@`%|>])")},
	{regexp.MustCompile(`tab character`), regexp.MustCompile("(\t)")},
	{regexp.MustCompile(`unexpected end of stream`), regexp.MustCompile(`(["'])`)},
	{openBracket, regexp.MustCompile(`([\[{])`)},
}

// suspect returns the offset of what a message is about, in the line that begins at an offset.
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

// unusableKey returns the first key of a mapping that is null, a mapping or a list.
func unusableKey(node *yaml.Node) *yaml.Node {
	for i, content := range node.Content {
		isKey, key := node.Kind == yaml.MappingNode && i%2 == 0, content
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if isKey && (key.Kind != yaml.ScalarNode || key.ShortTag() == "!!null") {
			return content
		}
		if key := unusableKey(content); key != nil {
			return key
		}
	}
	return nil
}

// yamlErrorLine takes the line out of a YAML decoder's error, 0 if there is none.
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

// firstUnreadable returns the offset of the first byte that cannot stand in YAML.
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
