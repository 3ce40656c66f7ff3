// Package findings defines findings, the results of checks of files, and reports of them: as text for users, and as
// JSON, SARIF and JUnit for systems that run checks.
package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// Rule is a rule that files are checked against.
type Rule struct {
	// ID names the rule in reports. It must never change: users suppress and count findings by it.
	ID       string  `json:"id"`
	Severity Verdict `json:"severity"`
	// What states the rule as a sentence about files that comply.
	What string `json:"what"`
	// Why says what happens if files do not comply.
	Why string `json:"why,omitempty"`
	// Gates are the gates that refuse violations of the rule, besides OLM itself.
	Gates []Gate `json:"gates,omitempty"`
	// ByGates says that the rule applies only if one of its gates is in the profile.
	ByGates bool `json:"byGates,omitempty"`
}

// Finding is one violation of a rule and its position. It is also an error.
type Finding struct {
	// File is the path of the file or folder, as the user can open it.
	File string `json:"file"`
	// Line and Column count from 1; columns count characters. They are 0 if the finding is about the whole file or
	// the whole line.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Package is the package that the finding is about. It is empty if there is none, or the document could not be read.
	Package  string  `json:"package,omitempty"`
	Severity Verdict `json:"severity"`
	// Rule is the ID of the violated rule.
	Rule string `json:"rule"`
	// Message says what was found and what was expected.
	Message string `json:"message"`
	// Fix corrects the violation mechanically, in the file. It is empty if people have to decide.
	Fix []Edit `json:"fix,omitempty"`
}

// longest is the maximum number of characters of a message, and of each text in it. A file can have a name of megabytes, and thousands of
// faults whose messages repeat it.
const longest = 4 << 10

// Finding returns a finding about a whole file.
func (r Rule) Finding(file, format string, args ...any) *Finding {
	said := slices.Clone(args)
	for i, arg := range said {
		if text, is := arg.(string); is {
			said[i] = escape.Short(text, longest)
		}
	}
	return &Finding{File: file, Severity: r.Severity, Rule: r.ID, Message: escape.Short(fmt.Sprintf(format, said...), longest)}
}

// At sets the position of the finding and returns it.
func (f *Finding) At(line, column int) *Finding {
	f.Line, f.Column = line, column
	return f
}

// In sets the package that the finding is about and returns the finding.
func (f *Finding) In(pkg string) *Finding {
	f.Package = escape.Short(pkg, longest)
	return f
}

// Place returns the position of the finding: FILE, FILE:LINE or FILE:LINE:COLUMN.
func (f *Finding) Place() string {
	switch {
	case f.Line == 0:
		return f.File
	case f.Column == 0:
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

// Error returns position and message, for findings that are returned as errors.
func (f *Finding) Error() string { return f.Place() + ": " + f.Message }

// String returns the finding as a line of a text report.
func (f *Finding) String() string {
	return fmt.Sprintf("%s: %s: %s (%s)", f.Place(), f.Severity, f.Message, f.Rule)
}

// Sort sorts findings by file, line, column and rule.
func Sort(all []*Finding) {
	slices.SortStableFunc(all, func(a, b *Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			strings.Compare(a.Rule, b.Rule), strings.Compare(a.Message, b.Message))
	})
}

// Count returns the number of findings with a severity.
func Count(all []*Finding, severity Verdict) int {
	count := 0
	for _, f := range all {
		if f.Severity == severity {
			count++
		}
	}
	return count
}
