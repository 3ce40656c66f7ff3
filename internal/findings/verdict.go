package findings

import "fmt"

// Verdict is the result of a check: of a file, a cluster, or a plan. Reports in JSON have these words, so they never
// change.
type Verdict string

// The verdicts.
const (
	OK          Verdict = "ok"           // nothing is wrong
	Warning     Verdict = "warning"      // somebody should know of it; everything works, and a plan is safe
	NotExamined Verdict = "not-examined" // it could not be read, or does not run
	Error       Verdict = "error"        // of files: they do not work
	Fault       Verdict = "fault"        // of clusters: something does not work, or will not
	Refused     Verdict = "refused"      // of plans: the plan is not safe
)

// The sequences that colour texts on a terminal.
const (
	red, green, yellow, uncoloured = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"
)

// Sequences are the sequences of all Palettes.
var Sequences = []string{red, green, yellow, uncoloured}

// looks are the mark and the colour of each verdict.
var looks = map[Verdict]struct{ mark, colour string }{
	OK:          {"✔", green},
	Warning:     {"!", yellow},
	NotExamined: {"?", yellow},
	Error:       {"✗", red},
	Fault:       {"✗", red},
	Refused:     {"✗", red},
}

// Palette colours a text by a verdict.
type Palette func(Verdict, string) string

// Plain is the Palette without colours.
func Plain(_ Verdict, text string) string { return text }

// Colours is the Palette for a terminal.
func Colours(v Verdict, text string) string { return looks[v].colour + text + uncoloured }

// Mark returns the coloured mark of a verdict, for the beginning of a line.
func (p Palette) Mark(v Verdict) string { return p(v, looks[v].mark) }

// Check is the result of one check of a cluster or a plan.
type Check struct {
	// Code identifies the result. It stays the same when the text changes.
	Code    string  `json:"code"`
	Verdict Verdict `json:"verdict"`
	What    string  `json:"what"`
	// Do says how to solve the problem. It is empty if there is none.
	Do string `json:"do,omitempty"`
}

// Pass returns a check that finds nothing wrong.
func Pass(code, what string, args ...any) Check {
	return Check{Code: code, Verdict: OK, What: fmt.Sprintf(what, args...)}
}

// Warn returns a check that warns. do says what helps.
func Warn(code, do, what string, args ...any) Check {
	return Check{Code: code, Verdict: Warning, What: fmt.Sprintf(what, args...), Do: do}
}

// Fail returns a check that finds a fault in a cluster. do says what helps.
func Fail(code, do, what string, args ...any) Check {
	return Check{Code: code, Verdict: Fault, What: fmt.Sprintf(what, args...), Do: do}
}
