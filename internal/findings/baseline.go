package findings

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
)

// Schema is the name and version of the JSON of reports. It changes when a field does.
const Schema = "berth.findings.v1"

// baselineLimit is the maximum size of a baseline file.
const baselineLimit = 16 << 20

// Baseline holds known findings, from the JSON of an earlier report.
type Baseline struct {
	known map[identity]int // the number of each
}

// identity identifies a finding across reports. It has no lines, because these change with every edit of a file above the
// finding.
type identity struct{ rule, place, message string }

// lines matches line numbers in messages, such as "the other is at tide.yaml:12".
var lines = regexp.MustCompile(`(\.(?:ya?ml|json)):\d+(?::\d+)?|(\bline) \d+`)

// identify returns the identity of a finding. It replaces invalid UTF-8, as JSON does.
func identify(f Finding) identity {
	place := "package " + f.Package
	if f.Package == "" {
		place = "file " + f.File
	}
	valid := func(text string) string { return string([]rune(text)) }
	return identity{f.Rule, valid(place), lines.ReplaceAllString(valid(f.Message), "$1$2")}
}

// ReadBaseline reads a report that was written as JSON.
func ReadBaseline(file string) (*Baseline, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	defer opened.Close()
	text, err := io.ReadAll(io.LimitReader(opened, baselineLimit+1))
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	return ParseBaseline(file, text)
}

// ParseBaseline is like ReadBaseline, for the content of a file.
func ParseBaseline(file string, text []byte) (*Baseline, error) {
	const advice = "write it with -o json > FILE, without --baseline"
	if len(text) > baselineLimit {
		return nil, fmt.Errorf("baseline %s is larger than %d MiB", file, baselineLimit>>20)
	}
	var report Document
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("baseline %s is not a report in JSON: %w; %s", file, err, advice)
	}
	if report.Schema != Schema {
		return nil, fmt.Errorf("baseline %s has schema %q, want %q; %s", file, report.Schema, Schema, advice)
	}
	b := &Baseline{map[identity]int{}}
	for i, f := range report.Findings {
		if f == nil || f.Rule == "" || f.Message == "" {
			return nil, fmt.Errorf("baseline %s: finding number %d has no rule or no message; %s", file, i+1, advice)
		}
		b.known[identify(*f)]++
	}
	return b, nil
}

// Of returns a report without known findings, and the number of findings in the baseline that are gone. Each finding of the
// baseline stands for one.
func (b *Baseline) Of(r Report) (Report, int) {
	left := map[identity]int{}
	gone := 0
	for known, n := range b.known {
		left[known] = n
		gone += n
	}
	found := r.Findings
	r.Findings = nil
	for _, f := range found {
		id := identify(*f)
		if left[id] == 0 {
			r.Findings = append(r.Findings, f)
			continue
		}
		left[id]--
		gone--
		r.Known++
	}
	return r, gone
}
