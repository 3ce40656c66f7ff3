package escape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
)

// JSON writes a value as JSON, indented. It is all that the value says; what a terminal would not show as a visible
// character, or a CI system would take for a command, is written by its number.
func JSON(w io.Writer, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(visibleJSON(text.Bytes()))
	return err
}

// visibleJSON writes characters of strings by their numbers. Elsewhere JSON has none that are concerned, but the
// ends of lines.
func visibleJSON(text []byte) []byte {
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
