package escape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// YAML returns JSON as YAML, with the same data. Strings with characters that are invisible, or that a CI system could take for a command,
// are written on one line, with escapes. Other strings are broken into lines.
func YAML(report []byte) ([]byte, error) {
	report = []byte(asInYAML(VisibleJSON(report)))
	text, err := boundedyaml.FromJSON(report)
	if err != nil || !strings.ContainsFunc(string(text), func(r rune) bool { return r != '\n' && isHidden(r) }) && !needsQuotes(string(text)) {
		return text, err
	}
	root, err := boundedyaml.Parse(report)
	if err != nil {
		return nil, err
	}
	var quoted []string
	quote(&root, &quoted)
	if text, err = boundedyaml.Encode(&root); err != nil {
		return nil, err
	}
	return placeholder.ReplaceAllFunc(text, func(found []byte) []byte {
		at, err := strconv.Atoi(string(placeholder.FindSubmatch(found)[1]))
		if err != nil || at >= len(quoted) {
			return found
		}
		return []byte(quoted[at])
	}), nil
}

// placeholder matches the text in place of a quoted string while the other strings are written. No other string has such a text, because
// all strings with this prefix are quoted.
var placeholder = regexp.MustCompile(`"` + prefix + `([0-9]+)"`)

const prefix = "quoted by berth "

// needsQuotes reports whether a CI system could take a part of a text for a command, wherever it is broken into lines.
func needsQuotes(text string) bool {
	return strings.Contains(text, "::") || strings.Contains(text, "##")
}

// quote replaces the strings that need quotes by placeholders, and appends their quoted form to quoted. The others keep the quotes of JSON.
func quote(node *boundedyaml.Node, quoted *[]string) {
	if node.Kind != boundedyaml.ScalarNode {
		node.Style = 0 // not JSON's style, with braces
	}
	if node.Kind == boundedyaml.MappingNode { // in the order of boundedyaml.FromJSON
		pairs := slices.Collect(slices.Chunk(node.Content, 2))
		slices.SortStableFunc(pairs, func(a, b []*boundedyaml.Node) int { return strings.Compare(a[0].Value, b[0].Value) })
		node.Content = slices.Concat(pairs...)
	}
	if node.Kind == boundedyaml.ScalarNode && (hidden(node.Value) || needsQuotes(node.Value) || strings.Contains(node.Value, prefix)) {
		*quoted = append(*quoted, quotedYAML(node.Value))
		node.Value, node.Tag, node.Style = prefix+strconv.Itoa(len(*quoted)-1), "!!str", boundedyaml.DoubleQuoted
	}
	for _, child := range node.Content {
		quote(child, quoted)
	}
}

// surrogates are two escapes of JSON for one character. YAML has one escape for it.
var surrogates = regexp.MustCompile(`\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})`)

// asInYAML returns JSON with the escapes that YAML has.
func asInYAML(text []byte) string {
	return surrogates.ReplaceAllStringFunc(string(text), func(pair string) string {
		high, _ := strconv.ParseUint(pair[2:6], 16, 32) // the expression has checked them
		low, _ := strconv.ParseUint(pair[8:12], 16, 32)
		return fmt.Sprintf(`\U%08x`, 0x10000+(high-0xd800)<<10+(low-0xdc00))
	})
}

// quotedYAML returns a text in double quotes.
func quotedYAML(text string) string {
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // never fails for a string
	return strings.TrimSuffix(asInYAML(VisibleJSON(written.Bytes())), "\n")
}
