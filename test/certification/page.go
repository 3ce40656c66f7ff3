package certification

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/berth-csi/berth/drivers/registry"
)

// Records returns the records in testdata, by driver. A driver whose tests nobody has run has no record.
func Records() (map[string]Record, error) {
	records := map[string]Record{}
	for _, name := range registry.Names() {
		content, err := os.ReadFile(recordOf(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		record, err := ParseRecord(string(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", recordOf(name), err)
		}
		records[name] = record
	}
	return records, nil
}

// Markdown returns the tables of the page: the number of tests of each kind, the passing and failing ones, and why
// others do not run.
func Markdown(records map[string]Record) string {
	var text strings.Builder
	text.WriteString("| driver | programs | on | pass | fail | cannot run here | do not apply |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, driver := range registry.Names() {
		r, run := records[driver]
		if !run {
			fmt.Fprintf(&text, "| %s | not run yet | | | | | |\n", driver)
			continue
		}
		count := map[Kind]int{}
		for name, n := range r.Skipped {
			count[named(name).Kind] += n
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %d | %d | %d | %d |\n", driver, r.Programs, r.Date, len(r.Passed), len(r.Failed), count[NotHere], count[NotApplicable])
	}
	if len(records) == 0 {
		return text.String()
	}
	text.WriteString("\n| why tests do not pass | | " + strings.Join(slices.Sorted(maps.Keys(records)), " | ") + " |\n| --- | --- |" + strings.Repeat(" --- |", len(records)) + "\n")
	for _, reason := range reasons {
		counts, all := "", 0
		for _, driver := range slices.Sorted(maps.Keys(records)) {
			n := records[driver].explainedBy(reason)
			all += n
			if n > 0 {
				counts += fmt.Sprintf(" %d", n)
			}
			counts += " |"
		}
		if all > 0 {
			fmt.Fprintf(&text, "| %s | %s |%s\n", reason.Why, reason.Kind, counts)
		}
	}
	text.WriteString("\n| test | " + strings.Join(slices.Sorted(maps.Keys(records)), " | ") + " |\n| --- |" + strings.Repeat(" --- |", len(records)) + "\n")
	for _, test := range tests(records) {
		fmt.Fprintf(&text, "| %s |", strings.NewReplacer("|", "\\|", "[", "\\[", "]", "\\]").Replace(test))
		for _, driver := range slices.Sorted(maps.Keys(records)) {
			fmt.Fprintf(&text, " %s |", records[driver].outcome(test))
		}
		text.WriteString("\n")
	}
	return text.String()
}

// named returns the reason with a name.
func named(name string) Reason {
	at := slices.IndexFunc(reasons, func(r Reason) bool { return r.Name == name })
	if at < 0 {
		return Reason{}
	}
	return reasons[at]
}

// tests returns the names of all tests that ran, sorted.
func tests(records map[string]Record) []string {
	all := map[string]bool{}
	for _, r := range records {
		for _, test := range slices.Concat(r.Passed, r.Failed) {
			all[test] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// outcome returns the table's text for a test.
func (r Record) outcome(test string) string {
	switch {
	case slices.Contains(r.Passed, test):
		return "pass"
	case slices.Contains(r.Failed, test):
		return "FAIL"
	}
	return "–"
}

// explainedBy counts the tests that did not pass for a reason.
func (r Record) explainedBy(reason Reason) int {
	if reason.Kind != Fails {
		return r.Skipped[reason.Name]
	}
	return len(slices.DeleteFunc(slices.Clone(r.Failed), func(test string) bool { return !reason.Tests.MatchString(test) }))
}
