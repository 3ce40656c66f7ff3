// Package outline writes reports of nested lines, as text and as Markdown.
package outline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// Line is a line of a report with the lines below it, which explain it.
type Line struct {
	Text  Text
	Below []Line
}

// Text is a text with values from files. Each medium escapes the values in its own way.
type Text struct {
	Format string // with a %s for each value
	Values []string
}

// Say returns a text.
func Say(format string, values ...string) Text { return Text{format, values} }

// In returns the text for a medium.
func (t Text) In(m Medium) string {
	var shown []any
	for _, value := range t.Values {
		shown = append(shown, m.value(value))
	}
	return fmt.Sprintf(t.Format, shown...)
}

// Add adds a value that may be empty.
func (t *Text) Add(value string) {
	if value == "" {
		t.Format += "none"
		return
	}
	t.Format += "%s"
	t.Values = append(slices.Clone(t.Values), value)
}

// Medium is the format of a report.
type Medium struct {
	mark  string // before each line
	value func(string) string
}

// The media.
var (
	Plain    = Medium{"", escape.Cell}
	Markdown = Medium{"- ", escape.Markdown}
)

// Render returns lines, each with a mark and indented by its level.
func (m Medium) Render(lines []Line, level int) string {
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(strings.Repeat("  ", level) + m.mark + l.Text.In(m) + "\n")
		text.WriteString(m.Render(l.Below, level+1))
	}
	return text.String()
}

// The maximum lengths of lists in reports. JSON has all entries.
const (
	namesLimit = 8
	linesLimit = 30
)

// With returns a line with a list of names after the text. A long list is shortened.
func (t Text) With(names []string) Line {
	shown := names[:min(len(names), namesLimit)]
	t.Format += ": %s" + strings.Repeat(", %s", len(shown)-1)
	t.Values = slices.Concat(t.Values, shown)
	if more := len(names) - len(shown); more > 0 {
		t.Format += fmt.Sprintf(" and %d more", more)
	}
	return Line{Text: t}
}

// Of returns a line with others below it. A long list is shortened.
func (t Text) Of(below []Line) Line {
	l := Line{t, slices.Clone(below[:min(len(below), linesLimit)])}
	if more := len(below) - linesLimit; more > 0 {
		l.Below = append(l.Below, Line{Text: Say(fmt.Sprintf("… and %d more", more))})
	}
	return l
}
