package certification

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Record is the result of a run of a driver's tests.
type Record struct {
	// Date is the date of the run, such as "2026-11-27", and Programs says which programs ran, as testbed.Programs does.
	Date, Programs string
	// Passed and Failed are the names of tests.
	Passed, Failed []string
	// Skipped counts the tests that did not run, by the names of the reasons.
	Skipped map[string]int
}

// NewRecord returns the record of a run. The error names the tests that did not pass and that no reason explains.
func NewRecord(driver string, has map[string]bool, outcomes []Outcome) (Record, error) {
	r := Record{Skipped: map[string]int{}}
	var errs []error
	for _, o := range outcomes {
		reason, explained := Explain(driver, has, o)
		switch {
		case o.State == Pass:
			r.Passed = append(r.Passed, o.Test)
			continue
		case !explained:
			errs = append(errs, fmt.Errorf("%s, and no reason explains it: %s\n%s", o.State, o.Test, o.Message))
		case o.State == Skip:
			r.Skipped[reason.Name]++
		}
		if o.State == Fail {
			r.Failed = append(r.Failed, o.Test)
		}
	}
	return r, errors.Join(errs...)
}

// String returns the record as a file.
func (r Record) String() string {
	return fmt.Sprintf("%s\t%s\t%s\n", ran, r.Date, r.Programs) + r.outcomes()
}

// ran begins the line with the date and the programs of the run.
const ran = "ran"

// outcomes returns the record without the date and the programs.
func (r Record) outcomes() string {
	var text strings.Builder
	for _, test := range r.Passed {
		fmt.Fprintf(&text, "%s\t%s\n", Pass, test)
	}
	for _, test := range r.Failed {
		fmt.Fprintf(&text, "%s\t%s\n", Fail, test)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(&text, "%s\t%d\t%s\n", Skip, r.Skipped[name], name)
	}
	return text.String()
}

// summary counts the tests by outcome.
func (r Record) summary() string {
	skipped := 0
	for _, n := range r.Skipped {
		skipped += n
	}
	return fmt.Sprintf("%d tests passed, %d failed, %d did not run", len(r.Passed), len(r.Failed), skipped)
}

// ParseRecord reads a file with a record.
func ParseRecord(content string) (Record, error) {
	r := Record{Skipped: map[string]int{}}
	for line := range strings.Lines(content) {
		line = strings.TrimSuffix(line, "\n")
		state, rest, _ := strings.Cut(line, "\t")
		switch state {
		case ran:
			r.Date, r.Programs, _ = strings.Cut(rest, "\t")
		case Pass:
			r.Passed = append(r.Passed, rest)
		case Fail:
			r.Failed = append(r.Failed, rest)
		case Skip:
			count, name, _ := strings.Cut(rest, "\t")
			n, err := strconv.Atoi(count)
			if err != nil || n < 1 || name == "" {
				return Record{}, fmt.Errorf("line %q: want %s, a number and the name of a reason", line, Skip)
			}
			r.Skipped[name] = n
		default:
			return Record{}, fmt.Errorf("line %q: want %s, %s, %s or %s first", line, ran, Pass, Fail, Skip)
		}
	}
	if r.Date == "" || r.Programs == "" {
		return Record{}, fmt.Errorf("no line says when and with which programs the tests ran; want %s, the date and the programs", ran)
	}
	return r, nil
}
