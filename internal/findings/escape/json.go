package escape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
)

// JSON writes a value as indented JSON. Characters that are invisible, or that a CI system could take for a command,
// are written as \u escapes.
func JSON(w io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(VisibleJSON(text.Bytes()))
	return err
}

// VisibleJSON returns JSON with the same data, in which strings have \u escapes for hidden characters and for what a CI system could
// take for a command. Outside of strings, JSON has no such characters but line ends.
func VisibleJSON(text []byte) []byte {
	if !hidden(string(bytes.ReplaceAll(text, []byte("\n"), nil))) && !bytes.Contains(text, []byte("##")) {
		return text
	}
	var shown bytes.Buffer
	for at, r := range string(text) {
		switch {
		case r == '\n' || !isHidden(r) && !(r == '#' && isCommand(string(text[at:min(len(text), at+100)]))):
			shown.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&shown, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&shown, `\u%04x\u%04x`, high, low)
		}
	}
	return shown.Bytes()
}
