// Package escape shows text from outside, such as names and messages in files and clusters, as what it is:
// text. Whoever wrote it decides nothing else about a report: no line, no colour, no link and no element of it.
//
// There is a function for each medium. All of them first write what nobody sees as people read it, such as
// \n, \x1b and \u202e, so that nothing is lost and nothing hides. Where something has to be told from such an
// escape, a backslash is doubled.
package escape

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lineLimit is how many characters of outside text a line of a report shows.
const lineLimit = 16 << 10

// Line returns text for a line that a terminal or a log shows. A CI system that reads the log takes nothing of it
// for a command.
func Line(text string) string { return begin(Visible(Short(text, lineLimit))) }

// Short returns the first so many characters of a text, and how many it leaves away.
func Short(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	count := 0
	for at := range text {
		if count == limit {
			return fmt.Sprintf("%s… (%d more characters)", text[:at], utf8.RuneCountInString(text[at:]))
		}
		count++
	}
	return text
}

// Visible returns a text with all in it that is no visible character, nor a space, written as an escape, and so that
// no CI system finds a command in it. Different texts stay different.
func Visible(text string) string {
	if !strings.Contains(text, `\`) && !hidden(text) {
		return withoutCommands(text)
	}
	var shown strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		at := rest[:size]
		rest = rest[size:]
		switch {
		case r == '\\' && looksEscaped(rest):
			shown.WriteString(`\\`)
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&shown, `\x%02x`, at[0])
		case isHidden(r):
			shown.WriteString(written(r))
		default:
			shown.WriteString(at)
		}
	}
	return withoutCommands(shown.String())
}

// Prose is like Visible, for a text of several lines: their ends and tabs stay.
func Prose(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, line := range lines {
		words := strings.Split(line, "\t")
		for j, word := range words {
			words[j] = Visible(word)
		}
		lines[i] = strings.Join(words, "\t")
	}
	return strings.Join(lines, "\n")
}

// looksEscaped tells whether a backslash before the text would be taken for the beginning of an escape.
func looksEscaped(text string) bool {
	r, size := utf8.DecodeRuneInString(text)
	return size > 0 && (strings.ContainsRune(`\nrtxuU`, r) || r == utf8.RuneError && size == 1 || isHidden(r))
}

// written is the escape of a character.
func written(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r <= unicode.MaxASCII:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// isHidden tells whether a character is none that a person sees: it controls a terminal, ends a line, turns the
// direction of text, or takes no place. Of spaces, only the usual one is visible.
func isHidden(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// hidden tells whether a text has anything that Visible writes as an escape, but for backslashes.
func hidden(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, isHidden)
}

// begin breaks what GitHub takes for a command where a line begins, such as ::error::.
func begin(line string) string {
	words := strings.TrimLeft(line, " \t")
	if !strings.HasPrefix(words, "::") {
		return line
	}
	return line[:len(line)-len(words)] + `\x3a` + words[1:]
}

// withoutCommands breaks what CI systems take for commands anywhere in a line: ##[NAME], ##vso[NAME] and
// ##teamcity[NAME].
func withoutCommands(line string) string {
	if !strings.Contains(line, "##") {
		return line
	}
	var broken strings.Builder
	for at := range len(line) {
		if at > 0 && isCommand(line[at-1:]) { // the second #, as a backslash may stand before the first
			broken.WriteString(`\x23`)
		} else {
			broken.WriteByte(line[at])
		}
	}
	return broken.String()
}

// isCommand tells whether a text begins with ## and a bracket, with letters between them or without.
func isCommand(text string) bool {
	behind, is := strings.CutPrefix(text, "##")
	if !is {
		return false
	}
	bracket := strings.TrimLeft(behind, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	return strings.HasPrefix(bracket, "[")
}
