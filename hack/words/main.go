// Command words checks that code and documentation use the terms of Kubernetes and OLM, and one word for one thing. It
// prints each word that has a better one, with its place, and then fails.
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-csi/berth/hack/check"
)

func main() {
	check.Main("words", checkFiles)
}

// checkFiles returns a line for each word that has a better one, and a last line that says what to do.
func checkFiles() (found []string, err error) {
	err = check.EachFile(func(file string, content []byte) error {
		if isOurs(file) {
			found = append(found, checkFile(file, string(content))...)
		}
		return nil
	})
	if len(found) > 0 {
		found = append(found, fmt.Sprintf("words: %d places; hack/words/rules.go lists what to write instead", len(found)))
	}
	return found, err
}

// checked are the endings of files that people write and read.
var checked = []string{".go", ".md", ".txtar", ".sh", ".mk", ".html", "Makefile", "gather"}

// isOurs reports whether a file is written by people, and is not the list of words itself.
func isOurs(file string) bool {
	return slices.ContainsFunc(checked, func(ending string) bool { return strings.HasSuffix(file, ending) }) &&
		!strings.HasPrefix(file, "hack/words/") && !strings.Contains(filepath.Base(file), "zz_generated")
}

// checkFile checks the name and the content of a file.
func checkFile(file, content string) []string {
	found := checkText(file, 0, file, goLine{})
	lines := scan(file, content)
	for i, line := range strings.Split(content, "\n") {
		found = append(found, checkText(file, i+1, line, lines[i+1])...)
	}
	return found
}

// checkText checks a line. Line 0 is the name of the file.
func checkText(file string, line int, text string, of goLine) (found []string) {
	inText, inNames, inComment := split(text), split(of.names), split(of.comment)
	for _, r := range rules {
		if !r.appliesTo(file) {
			continue
		}
		words := inText
		switch {
		case r.comments:
			words = inComment
		case r.names && line > 0:
			words = inNames
		}
		if r.matches(words) {
			place := file
			if line > 0 {
				place = fmt.Sprintf("%s:%d", file, line)
			}
			found = append(found, fmt.Sprintf("%s: %q: write %s", place, r.phrase, r.instead))
		}
	}
	return found
}

// goLine is a line of a Go file: its identifiers, with spaces between them, and its comment.
type goLine struct{ names, comment string }

// scan returns the lines of a Go file by number. Other files have none.
func scan(file, content string) map[int]goLine {
	if !strings.HasSuffix(file, ".go") {
		return nil
	}
	lines := map[int]goLine{}
	files := token.NewFileSet()
	source := files.AddFile(file, -1, len(content))
	var s scanner.Scanner
	s.Init(source, []byte(content), nil, scanner.ScanComments)
	for {
		position, kind, text := s.Scan()
		if kind == token.EOF {
			return lines
		}
		number := source.Line(position)
		switch kind {
		case token.IDENT:
			line := lines[number]
			line.names += " " + text
			lines[number] = line
		case token.COMMENT:
			for i, part := range strings.Split(text, "\n") {
				line := lines[number+i]
				line.comment += " " + part
				lines[number+i] = line
			}
		}
	}
}

var (
	separators = regexp.MustCompile(`[^A-Za-z]+`)
	humps      = regexp.MustCompile(`([a-z])([A-Z])|([A-Z])([A-Z][a-z])`)
)

// split returns the words of a text in lower case. Each hump of an identifier is a word.
func split(text string) []string {
	return strings.Fields(strings.ToLower(separators.ReplaceAllString(humps.ReplaceAllString(text, "$1$3 $2$4"), " ")))
}

// A rule is about a phrase that has a better one.
type rule struct {
	phrase  string // in lower case, a word or several
	instead string
	// in are the folders that the rule is about; none stands for all.
	in []string
	// names limits the rule to identifiers of Go and names of files: in prose the word is plain English.
	names bool
	// comments limits the rule to comments of Go.
	comments bool
	// but are correct phrases that contain this phrase, such as names in an API.
	but []string
}

func (r rule) appliesTo(file string) bool {
	return len(r.in) == 0 || slices.ContainsFunc(r.in, func(folder string) bool { return strings.HasPrefix(file, folder+"/") })
}

// matches reports whether the phrase is among words, and not only as part of a correct phrase.
func (r rule) matches(words []string) bool {
	right := 0
	for _, phrase := range r.but {
		right += count(words, strings.Fields(phrase))
	}
	return count(words, strings.Fields(r.phrase)) > right
}

// count returns how often a phrase is among words.
func count(words, phrase []string) (n int) {
	for i := range words {
		if len(words)-i >= len(phrase) && slices.Equal(words[i:i+len(phrase)], phrase) {
			n++
		}
	}
	return n
}
