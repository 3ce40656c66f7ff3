package findings

import (
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// remedy finds the advice in a message.
var remedy = regexp.MustCompile(`(?:; |: )((?:expected|add|let|did you mean|remove|write|choose|rename|set|give|use|list)\b.*)$`)

// WriteTerminal writes the report for a terminal with this number of columns: each finding below its place, with advice on a line of its
// own. Severities have colours if colour is true.
func (r Report) WriteTerminal(w io.Writer, columns int, colour bool) error {
	var text strings.Builder
	for _, f := range r.Findings {
		message, do := f.Message, ""
		if at := remedy.FindStringSubmatchIndex(message); at != nil {
			message, do = message[:at[0]], message[at[2]:]
		}
		severity := string(f.Severity)
		if colour {
			severity = Colours(f.Severity, severity)
		}
		text.WriteString(escape.Line(f.Place()) + "\n")
		text.WriteString(wrapped("  "+severity+": ", len(f.Severity)+4, escape.Line(message+" ("+f.Rule+")"), columns))
		if do != "" {
			text.WriteString(wrapped("  do: ", 6, escape.Line(do), columns))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// wrapped returns mark, which is displayed in width columns, and after it the text, wrapped between words to the number of columns if
// possible. Later lines are indented like the text.
func wrapped(mark string, width int, text string, columns int) string {
	var lines strings.Builder
	lines.WriteString(mark)
	at := width
	for i, word := range strings.Split(text, " ") {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+length > columns:
			lines.WriteString("\n" + strings.Repeat(" ", width))
			at = width
		default:
			lines.WriteString(" ")
			at++
		}
		lines.WriteString(word)
		at += length
	}
	return lines.String() + "\n"
}
