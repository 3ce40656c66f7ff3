package escape

import (
	"fmt"
	"html"
	"strings"
	"unicode"
)

// valueLimit is how many characters of a single value a report shows where others stand beside it.
const valueLimit = 1000

// Cell returns text for a cell of a table, in which other cells are as wide as it is.
func Cell(text string) string { return Line(Short(text, valueLimit)) }

// Markdown returns text as a code span of Markdown, but not of a table there. In it there are no elements, links,
// images, mentions or references.
func Markdown(text string) string {
	shown := Visible(Short(text, valueLimit))
	if shown == "" {
		return ""
	}
	longest, run := 0, 0
	for _, r := range shown {
		if run++; r != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence, pad := strings.Repeat("`", longest+1), ""
	// One space at both ends is taken off, unless there are spaces only.
	if strings.HasPrefix(shown, "`") || strings.HasSuffix(shown, "`") ||
		strings.HasPrefix(shown, " ") && strings.HasSuffix(shown, " ") && strings.Trim(shown, " ") != "" {
		pad = " "
	}
	return fence + pad + shown + pad + fence
}

// HTML returns text for an element of HTML, SVG or other XML, or for an attribute in quotes.
func HTML(text string) string { return html.EscapeString(begin(Visible(text))) }

var dotSpecial = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;")

// DOT returns text as a string of DOT, for a label.
func DOT(text string) string { return `"` + dotSpecial.Replace(Visible(Short(text, valueLimit))) + `"` }

// mermaidNames are the entities of Mermaid that are easier to read than numbers.
var mermaidNames = map[rune]string{'"': "quot", '<': "lt", '>': "gt", '&': "amp"}

// Mermaid returns text for a string of Mermaid, without quotes, or for a comment. What Mermaid, or the Markdown in
// its strings, might read as more than a character is an entity.
func Mermaid(text string) string {
	var shown strings.Builder
	for _, r := range Visible(Short(text, valueLimit)) {
		switch name, named := mermaidNames[r]; {
		case named:
			fmt.Fprintf(&shown, "#%s;", name)
		case unicode.In(r, unicode.L, unicode.M, unicode.Nd) || strings.ContainsRune(" .,-+=()/_!?'", r):
			shown.WriteRune(r)
		default:
			fmt.Fprintf(&shown, "#%d;", r)
		}
	}
	return shown.String()
}

// SARIF returns text for the message of a result, in which [text](place) would be a link.
func SARIF(text string) string {
	return strings.ReplaceAll(Visible(Short(text, lineLimit)), "](", `]\x28`)
}
