package page

import (
	"regexp"
	"strings"
)

// Step is a command of a transcript, and its output on the page.
type Step struct{ Command, Output string }

// Transcript returns the steps of a block that shows commands with their output. Other blocks have no steps.
func (b Block) Transcript() (steps []Step) {
	for _, part := range strings.Split("\n"+b.Text, "\n$ ")[1:] {
		command, output, _ := strings.Cut(part, "\n")
		steps = append(steps, Step{command, strings.TrimSpace(output)})
	}
	return steps
}

// Shows reports whether a page shows a command's output. A line "…" of the page stands for any lines, and one that ends with "…" for one
// line that begins so.
func Shows(shown, printed string) bool {
	var pattern strings.Builder
	pattern.WriteString("^")
	for line := range strings.SplitSeq(shown, "\n") {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString("(?:\n.*)*")
			continue
		}
		pattern.WriteString("\n")
		begin, cut := strings.CutSuffix(line, "…")
		if pattern.WriteString(regexp.QuoteMeta(begin)); cut {
			pattern.WriteString(".*")
		}
	}
	return regexp.MustCompile(pattern.String() + "$").MatchString("\n" + printed)
}
