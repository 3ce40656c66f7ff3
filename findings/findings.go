// Package findings is what checks of files say: what is wrong, where, how bad that is and by which
// rule. Its reports are for people and for the systems that run checks: text, JSON, SARIF and JUnit.
package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says what a finding means.
type Severity string

const (
	// Error is a finding that keeps what is checked from doing its work.
	Error Severity = "error"
	// Warning is a finding that somebody should look at.
	Warning Severity = "warning"
)

// Rule is one thing that is checked.
type Rule struct {
	// ID names the rule, in reports and forever: others suppress or count findings by it.
	ID       string
	Severity Severity
	// What is the rule itself, as a sentence that is true of everything that keeps it.
	What string
	// Why says what happens otherwise.
	Why string
}

// Finding is one fault, and the place where it stands. It is an error, too.
type Finding struct {
	// File is the path of the file, or of the folder, as the user can open it.
	File string `json:"file"`
	// Line and Column count from 1, columns in characters. They are 0 where the fault is one of the
	// whole file, or of the whole line.
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
	Severity Severity `json:"severity"`
	// Rule is the ID of the rule that is broken.
	Rule string `json:"rule"`
	// Message says what was found and what was expected.
	Message string `json:"message"`
}

// Finding returns a finding by this rule about a whole file.
func (r Rule) Finding(file, format string, args ...any) *Finding {
	return &Finding{File: file, Severity: r.Severity, Rule: r.ID, Message: fmt.Sprintf(format, args...)}
}

// At places the finding, and returns it.
func (f *Finding) At(line, column int) *Finding {
	f.Line, f.Column = line, column
	return f
}

// Place is where the finding stands: FILE, FILE:LINE or FILE:LINE:COLUMN.
func (f *Finding) Place() string {
	switch {
	case f.Line == 0:
		return f.File
	case f.Column == 0:
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

// Error is the place and the message, for findings that are passed on as errors.
func (f *Finding) Error() string { return f.Place() + ": " + f.Message }

// String is all of the finding, as a text report has it.
func (f *Finding) String() string {
	return fmt.Sprintf("%s: %s: %s (%s)", f.Place(), f.Severity, f.Message, f.Rule)
}

// Sort puts findings in the order of files, lines and columns, and those of one place in that of
// their rules.
func Sort(all []*Finding) {
	slices.SortStableFunc(all, func(a, b *Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			strings.Compare(a.Rule, b.Rule), strings.Compare(a.Message, b.Message))
	})
}

// Count returns how many findings have a severity.
func Count(all []*Finding, severity Severity) int {
	count := 0
	for _, f := range all {
		if f.Severity == severity {
			count++
		}
	}
	return count
}
