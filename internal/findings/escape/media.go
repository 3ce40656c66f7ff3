package escape

import (
	"fmt"
	"html"
	"strings"
	"unicode"
)

// valueLimit is the maximum number of characters of a value that is shown next to others.
const valueLimit = 1000

// Cell returns text for a cell of a table, shortened because it widens the other cells of its column.
func Cell(text string) string { return Line(Short(text, valueLimit)) }

// Markdown returns text as a Markdown code span, but not for tables. A code span has no elements, links, images,
// mentions or references.
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
	// Markdown removes one space at both ends, unless there are only spaces.
	if strings.HasPrefix(shown, "`") || strings.HasSuffix(shown, "`") ||
		strings.HasPrefix(shown, " ") && strings.HasSuffix(shown, " ") && strings.Trim(shown, " ") != "" {
		pad = " "
	}
	return fence + pad + shown + pad + fence
}

// HTML returns text for an element of HTML, SVG or other XML, or for a quoted attribute.
func HTML(text string) string { return html.EscapeString(begin(Visible(text))) }

var dotSpecial = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "&", "&amp;")

// DOT returns text as a DOT string, for a label.
func DOT(text string) string { return `"` + dotSpecial.Replace(Visible(Short(text, valueLimit))) + `"` }

// mermaidNames are the entities of Mermaid that are easier to read than numbers.
var mermaidNames = map[rune]string{'"': "quot", '<': "lt", '>': "gt", '&': "amp"}

// Mermaid returns text for a Mermaid string, without quotes, or for a comment. It uses entities for everything that Mermaid, or Markdown in
// its strings, might interpret.
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

// SARIF returns text for the message of a result, where [text](place) would be a link.
func SARIF(text string) string {
	return strings.ReplaceAll(Visible(Short(text, lineLimit)), "](", `]\x28`)
}
