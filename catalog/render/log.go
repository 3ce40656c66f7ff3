package render

import (
	"bytes"
	"io"
	"regexp"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// A CI system reads what commands print, and takes some of it for its own commands, such as ::add-path::DIR at the beginning of a
// line, or ##vso[task.setvariable] anywhere. GitHub's runner ignores all spaces of Unicode at the beginning of a
// line, also those that break no line: https://learn.microsoft.com/en-us/dotnet/api/system.string.trimstart.
var (
	atBeginning = regexp.MustCompile(`(?m)^[\t\v\f\r\x{85}\pZ]*::[A-Za-z].*::`)
	anywhere    = regexp.MustCompile(`##[A-Za-z]*\[`)
)

// ForLog returns a writer of documents in one of Formats. It escapes the strings that a CI system would take for commands, which does not
// change the data. Each write must consist of whole documents.
func ForLog(w io.Writer, format string) io.Writer { return forLog{w, format} }

type forLog struct {
	io.Writer
	format string
}

func (w forLog) Write(p []byte) (int, error) {
	text := p
	var err error
	if w.format == "yaml" {
		text, err = harmlessYAML(p)
	} else {
		text = escapeSecond(p, `\u0023`)
	}
	if err == nil {
		_, err = w.Writer.Write(text)
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// escapeSecond writes the second # of commands as an escape. The first may follow a backslash.
func escapeSecond(text []byte, escape string) []byte {
	if !anywhere.Match(text) { // nearly always; a replacement would copy the text
		return text
	}
	return anywhere.ReplaceAllFunc(text, func(found []byte) []byte {
		return append(append([]byte{'#'}, escape...), found[2:]...)
	})
}

// hasCommand reports whether a text has a command. It matches only lines with two colons: to match all lines would take a third of the
// time of rendering a catalog in YAML.
func hasCommand(text []byte) bool {
	if anywhere.Match(text) {
		return true
	}
	colons := []byte("::")
	for at := bytes.Index(text, colons); at >= 0; at = bytes.Index(text, colons) {
		line, rest, _ := bytes.Cut(text[at:], []byte("\n"))
		if begin := bytes.LastIndexByte(text[:at], '\n') + 1; atBeginning.Match(text[begin : at+len(line)]) {
			return true
		}
		text = rest
	}
	return false
}

// separator is the line before each document.
const separator = "---\n"

// harmlessYAML rewrites the documents that have commands.
func harmlessYAML(text []byte) ([]byte, error) {
	if !hasCommand(text) {
		return text, nil
	}
	var all bytes.Buffer
	for len(text) > 0 {
		document := text
		if end := bytes.Index(text, []byte("\n"+separator)); end >= 0 {
			document = text[:end+1]
		}
		text = text[len(document):]
		if hasCommand(document) {
			var err error
			if document, err = quoted(document); err != nil {
				return nil, err
			}
		}
		all.Write(document)
	}
	return all.Bytes(), nil
}

// quoted writes a document with double quotes around the strings that have commands: within double quotes, no new line begins, and
// escapes are possible.
func quoted(document []byte) ([]byte, error) {
	root, err := boundedyaml.Parse(document)
	if err != nil {
		return nil, err
	}
	quoteCommands(&root)
	text, err := boundedyaml.Encode(&root)
	if err != nil {
		return nil, err
	}
	return escapeSecond(append([]byte(separator), text...), `\x23`), nil
}

func quoteCommands(node *boundedyaml.Node) {
	if node.Kind == boundedyaml.ScalarNode && hasCommand([]byte(node.Value)) {
		node.Style = boundedyaml.DoubleQuoted
	}
	for _, child := range node.Content {
		quoteCommands(child)
	}
}
