// Package faults shows errors to people: a line for each fault.
package faults

import "strings"

// Listed is an error with faults that are listed below it.
type Listed struct {
	Head   string
	Faults error
}

func (e *Listed) Error() string { return e.Head + "\n" + e.Faults.Error() }
func (e *Listed) Unwrap() error { return e.Faults }

// Lines returns the lines of an error. An error has several lines only if it joins or lists errors: a line break in a message does not
// begin another line.
func Lines(err error) []string {
	text := err.Error()
	switch e := err.(type) {
	case *Listed:
		return append([]string{e.Head}, Lines(e.Faults)...)
	case interface{ Unwrap() []error }:
		var texts, lines []string
		for _, fault := range e.Unwrap() {
			texts, lines = append(texts, fault.Error()), append(lines, Lines(fault)...)
		}
		if text == strings.Join(texts, "\n") && len(lines) > 0 {
			return lines
		}
	case interface{ Unwrap() error }:
		if e.Unwrap() == nil {
			break
		}
		if before, after, found := strings.Cut(text, e.Unwrap().Error()); found {
			lines := Lines(e.Unwrap())
			lines[0] = before + lines[0]
			lines[len(lines)-1] += after
			return lines
		}
	}
	return []string{text}
}
