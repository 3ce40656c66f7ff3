package boundedyaml

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Written returns the text of a scalar in its source, with its quotes, and its offset. It returns false unless the scalar is on one
// line, without a tag or an anchor.
func Written(source []byte, node *Node) (offset int, text string, ok bool) {
	if node.Kind != ScalarNode || node.Anchor != "" {
		return 0, "", false
	}
	offset = Offset(source, node.Line, node.Column)
	rest, _, _ := bytes.Cut(source[offset:], []byte("\n"))
	end := 0
	switch node.Style {
	case 0:
		if node.Value != "" && bytes.HasPrefix(rest, []byte(node.Value)) {
			end = len(node.Value)
		}
	case yamlv3.DoubleQuotedStyle:
		end = quotedEnd(rest, '"')
	case yamlv3.SingleQuotedStyle:
		end = quotedEnd(rest, '\'')
	}
	return offset, string(rest[:end]), end > 0
}

// quotedEnd returns the length of the quoted text at the beginning of a line, or 0 if it does not end on that line.
func quotedEnd(line []byte, quote byte) int {
	if len(line) == 0 || line[0] != quote {
		return 0
	}
	for i := 1; i < len(line); i++ {
		switch {
		case line[i] == '\\' && quote == '"':
			i++
		case line[i] == quote && quote == '\'' && i+1 < len(line) && line[i+1] == quote:
			i++
		case line[i] == quote:
			return i + 1
		}
	}
	return 0
}

// plain matches texts that need no quotes in any context and any version of YAML.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_/-]*(?:\.[A-Za-z0-9_/-]+)*$`)

// words matches plain texts that YAML does not read as strings.
var words = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|y|n|null|nan|inf)$`)

// Scalar returns a text as a scalar with the quotes of like, or with double quotes if it needs any.
func Scalar(text, like string) string {
	switch isPlain := plain.MatchString(text) && !words.MatchString(text); {
	case strings.HasPrefix(like, "'") && strings.IndexFunc(text, func(r rune) bool { return r < ' ' }) < 0:
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	case !strings.HasPrefix(like, `"`) && isPlain:
		return text
	}
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // never fails for a string
	return strings.TrimSuffix(quoted.String(), "\n")
}
