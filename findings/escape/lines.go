package escape

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Lines puts together a text for people, line by line. What is put into a line cannot end it, whatever it is.
type Lines struct{ text strings.Builder }

// Add adds a line.
func (l *Lines) Add(format string, args ...any) { l.AddMarked("", format, args...) }

// AddMarked adds a line that begins with a mark, such as a coloured one. The mark is written as it is.
func (l *Lines) AddMarked(mark, format string, args ...any) {
	l.text.WriteString(mark + Line(fmt.Sprintf(format, args...)) + "\n")
}

// String returns the lines.
func (l *Lines) String() string { return l.text.String() }

// Messages returns a writer of messages for people: all that is written at once is one line.
func Messages(w io.Writer) io.Writer { return messages{w} }

type messages struct{ io.Writer }

func (m messages) Write(message []byte) (int, error) {
	line, ends := strings.CutSuffix(string(message), "\n")
	line = Line(line)
	if ends {
		line += "\n"
	}
	if _, err := io.WriteString(m.Writer, line); err != nil {
		return 0, err
	}
	return len(message), nil
}

// Screen returns a writer of text that has lines of its own, such as data that a terminal is to show: lines stay
// lines and tabs stay tabs, all else that is not visible is written as an escape. The given sequences pass as they
// are, such as those of colours.
func Screen(w io.Writer, pass ...string) io.Writer { return &screen{to: w, pass: pass, begins: true} }

type screen struct {
	to     io.Writer
	pass   []string
	begins bool // nothing of the line but spaces is written yet
}

func (s *screen) Write(data []byte) (int, error) {
	var shown strings.Builder
	for line := range strings.Lines(string(data)) {
		words, ends := strings.CutSuffix(line, "\n")
		line = withoutCommands(s.visible(words))
		if s.begins {
			line = begin(line)
		}
		shown.WriteString(line)
		if ends {
			shown.WriteString("\n")
		}
		s.begins = ends || s.begins && strings.Trim(words, " \t") == ""
	}
	if _, err := io.WriteString(s.to, shown.String()); err != nil {
		return 0, err
	}
	return len(data), nil
}

// visible is like Visible, but for what may pass, and for backslashes: text that is escaped stays as it is.
func (s *screen) visible(line string) string {
	if !hidden(line) {
		return line
	}
	var shown strings.Builder
next:
	for line != "" {
		for _, sequence := range s.pass {
			if rest, found := strings.CutPrefix(line, sequence); found {
				shown.WriteString(sequence)
				line = rest
				continue next
			}
		}
		r, size := utf8.DecodeRuneInString(line)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&shown, `\x%02x`, line[0])
		case r != '\t' && isHidden(r):
			shown.WriteString(written(r))
		default:
			shown.WriteString(line[:size])
		}
		line = line[size:]
	}
	return shown.String()
}
