package escape

import (
	"fmt"
	"regexp"
	"strings"
)

// plain matches words without special meaning for a shell or a reader. Options do not match.
var plain = regexp.MustCompile(`^[A-Za-z0-9_/][A-Za-z0-9_@%+=:,./-]*$`)

// wordLimit is the maximum number of characters of a word in a command. Names and UIDs are shorter.
const wordLimit = 512

// Command returns a command for a POSIX shell, for readers of a message to run. Each %s in it stands for one untrusted word, in order. Such
// a word can neither end the command nor begin another one, and it is never an option: a placeholder, which makes the command fail,
// replaces words that look like an option.
func Command(command string, words ...string) string {
	parts := strings.Split(command, "%s")
	if len(parts) != len(words)+1 {
		panic(fmt.Sprintf("command %q needs %d words, got %d", command, len(parts)-1, len(words)))
	}
	var text strings.Builder
	text.WriteString(parts[0])
	for i, word := range words {
		text.WriteString(Word(word))
		text.WriteString(parts[i+1])
	}
	return text.String()
}

// Word returns a text as one word of a command for a POSIX shell, as Command does.
func Word(text string) string {
	switch {
	case len(text) <= wordLimit && plain.MatchString(text):
		return text
	case text == "" || strings.HasPrefix(text, "-") || len(text) > wordLimit:
		return "'<NAME>'"
	}
	return "'" + strings.ReplaceAll(Visible(text), "'", `'\''`) + "'"
}
