package trials

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Run holds the outcomes of a run of the tests.
type Run struct {
	tests   map[string]outcome // by their folders and names, as in Attack.Test
	skipped string             // why tests of failures were skipped, or ""
}

// outcome counts how often tests passed and failed.
type outcome struct{ passed, failed int }

// Read reads the output of `go test -json`. A test that prints missing was skipped, since a plain clone lacks its
// requirements.
func Read(from io.Reader, missing string) (*Run, error) {
	run := &Run{tests: map[string]outcome{}}
	err := Each(from, func(event Event) {
		test := event.Package + " " + event.Test
		o := run.tests[test]
		switch event.Action {
		case "pass":
			o.passed++
		case "fail":
			o.failed++
		}
		run.tests[test] = o
		if strings.Contains(event.Output, missing) {
			run.skipped = missing
		}
	})
	return run, err
}

// Report writes each attack and each failure with its outcome. It fails if the run does not show that an attack is
// stopped, or the outcome of a failure. Skipped tests of failures need not be tried.
func (r *Run) Report(to io.Writer) error {
	return errors.Join(
		write(to, r.attacks(Areas), "", "%d attacks tried, each stopped", "of %d attacks, %d were not tried or not stopped"),
		write(to, r.failures(Failures), r.skipped, "%d failures tried, each survived or refused", "of %d failures, the run does not show what comes of %d"),
	)
}

// section has the attacks or failures, tried or not, below a title.
type section struct {
	title string
	rows  []row
}

type row struct {
	outcome
	shown        string // the name of an outcome that shows what was expected
	failed       string // the name of an outcome that shows something else
	tried, comes string
}

func (r *Run) attacks(areas []Area) (sections []section) {
	for _, area := range areas {
		s := section{title: area.Name}
		for _, a := range area.Attacks {
			s.rows = append(s.rows, row{r.tests[a.Test], "stopped", "NOT STOPPED", a.Attack, a.Stops})
		}
		sections = append(sections, s)
	}
	return sections
}

func (r *Run) failures(all []Failure) []section {
	of := map[int]outcome{}
	for test, o := range r.tests {
		for _, n := range numbers(test) {
			of[n] = outcome{of[n].passed + o.passed, of[n].failed + o.failed}
		}
	}
	s := section{title: "What can go wrong in a hand-over"}
	for i, f := range all {
		o := of[i+1]
		s.rows = append(s.rows, row{o, fmt.Sprintf("%d passed", o.passed), "FAILED", fmt.Sprintf("F%d: %s", i+1, plain(f.Failure)), plain(f.Outcome)})
	}
	return []section{s}
}

// write writes sections, and whether all of their rows are shown or, if tests were skipped, none failed. Otherwise it fails.
func write(to io.Writer, sections []section, skipped, all, some string) error {
	width, rows, tried, failed := 0, 0, 0, 0
	for _, s := range sections {
		for _, r := range s.rows {
			width, rows = max(width, len([]rune(r.tried))), rows+1
			switch {
			case r.outcome.failed > 0:
				failed++
			case r.passed > 0:
				tried++
			}
		}
	}
	for _, s := range sections {
		fmt.Fprintf(to, "\n%s\n", s.title)
		for _, r := range s.rows {
			fmt.Fprintf(to, "  %-11s  %-*s  %s\n", r.says(), width, r.tried, r.comes)
		}
	}
	switch {
	case tried == rows:
		fmt.Fprintf(to, "\n"+all+"\n", rows)
	case failed == 0 && skipped != "":
		fmt.Fprintf(to, "\n%d not tried: %s\n", rows-tried, skipped)
	default:
		return fmt.Errorf(some, rows, rows-tried)
	}
	return nil
}

func (r row) says() string {
	switch {
	case r.outcome.failed > 0:
		return r.failed
	case r.passed > 0:
		return r.shown
	}
	return "not tried"
}
