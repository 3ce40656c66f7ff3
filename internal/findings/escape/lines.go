package escape

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Lines builds a text line by line. Nothing that is added to a line can end it.
type Lines struct{ text strings.Builder }

// Add adds a line.
func (l *Lines) Add(format string, args ...any) { l.AddMarked("", format, args...) }

// AddMarked adds a line that begins with a mark, such as a coloured one. It does not escape the mark.
func (l *Lines) AddMarked(mark, format string, args ...any) {
	l.text.WriteString(mark + Line(fmt.Sprintf(format, args...)) + "\n")
}

// String returns the lines.
func (l *Lines) String() string { return l.text.String() }

// Message returns a message for an object in a cluster, such as a condition or an event. It keeps line ends, and has about limit
// characters at most.
func Message(text string, limit int) string {
	lines := strings.Split(Short(text, limit), "\n")
	for i, line := range lines {
		lines[i] = Line(line)
	}
	return Short(strings.Join(lines, "\n"), limit+64) // plus the note that Short adds
}

// Messages returns a writer for messages to users. It writes each call of Write as one line.
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

// Screen returns a writer for multi-line text on a terminal. It keeps line ends and tabs and the given sequences,
// such as for colours, and escapes all other invisible characters.
func Screen(w io.Writer, pass ...string) io.Writer { return &screen{to: w, pass: pass, begins: true} }

type screen struct {
	to     io.Writer
	pass   []string
	begins bool // only spaces were written to the line so far
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

// visible is like Visible, but keeps the passed sequences, and backslashes: text that is already escaped stays
// unchanged.
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
