// Package escape ensures that untrusted text, such as names and messages in files and clusters, is only text in a
// report: it cannot add lines, colours, links or elements.
//
// There is a function for each medium. All of them replace invisible characters by readable escapes, such as
// \n, \x1b and \u202e, so that nothing is lost and nothing hides. A backslash is doubled where it could be mistaken for
// such an escape.
package escape

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lineLimit is the maximum number of characters of untrusted text in a line of a report.
const lineLimit = 16 << 10

// Line returns text for a line on a terminal or in a log. A CI system that reads the log finds no command in it.
func Line(text string) string { return begin(Visible(Short(text, lineLimit))) }

// Short returns the first characters of a text, and the number of omitted ones.
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

// Visible returns a text with all invisible characters except spaces as escapes, and without anything that a CI
// system takes for a command. Different texts stay different.
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

// Prose is like Visible, but keeps line ends and tabs.
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

// looksEscaped reports whether a backslash before the text would look like the beginning of an escape.
func looksEscaped(text string) bool {
	r, size := utf8.DecodeRuneInString(text)
	return size > 0 && (strings.ContainsRune(`\nrtxuU`, r) || r == utf8.RuneError && size == 1 || isHidden(r))
}

// written returns the escape of a character.
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

// isHidden reports whether a character is invisible: it controls a terminal, ends a line, changes the direction of
// text, or has no width. Only the ordinary space is visible.
func isHidden(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// hidden reports whether Visible would escape anything in a text other than backslashes.
func hidden(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, isHidden)
}

// begin breaks GitHub's commands at the beginning of a line, such as ::error::.
func begin(line string) string {
	words := strings.TrimLeft(line, " \t")
	if !strings.HasPrefix(words, "::") {
		return line
	}
	return line[:len(line)-len(words)] + `\x3a` + words[1:]
}

// withoutCommands breaks commands of CI systems anywhere in a line: ##[NAME], ##vso[NAME] and ##teamcity[NAME].
func withoutCommands(line string) string {
	if !strings.Contains(line, "##") {
		return line
	}
	var broken strings.Builder
	for at := range len(line) {
		if at > 0 && isCommand(line[at-1:]) { // the second #, as there may be a backslash before the first
			broken.WriteString(`\x23`)
		} else {
			broken.WriteByte(line[at])
		}
	}
	return broken.String()
}

// isCommand reports whether a text begins with ##, optional letters and a bracket.
func isCommand(text string) bool {
	behind, is := strings.CutPrefix(text, "##")
	if !is {
		return false
	}
	bracket := strings.TrimLeft(behind, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	return strings.HasPrefix(bracket, "[")
}

// IsCommand reports whether a CI system takes a line of a log for a command. Some CI systems end a line at a carriage return.
func IsCommand(line string) bool {
	for part := range strings.SplitSeq(line, "\r") {
		part = strings.TrimLeftFunc(part, unicode.IsSpace)
		if begin(part) != part || withoutCommands(part) != part {
			return true
		}
	}
	return false
}
