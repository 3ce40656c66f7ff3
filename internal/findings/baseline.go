package findings

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
)

// Schema is the name and version of the JSON of reports. It changes when a field changes.
const Schema = "berth.findings.v1"

// baselineLimit is the maximum size of a baseline file.
const baselineLimit = 16 << 20

// Baseline holds known findings, from the JSON of an earlier report.
type Baseline struct {
	known known
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

// advice says how a baseline is made.
const advice = "write it with -o json > FILE, without --baseline"

// ReadBaseline reads a report that was written as JSON.
func ReadBaseline(file string) (*Baseline, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("baseline: %w; %s", err, advice)
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
	if len(text) > baselineLimit {
		return nil, fmt.Errorf("baseline %s is larger than %d MiB", file, baselineLimit>>20)
	}
	var report struct {
		Schema   string `json:"schema"`
		Findings known  `json:"findings"`
	}
	err := json.Unmarshal(text, &report)
	fault := (*nothingError)(nil)
	switch {
	case err != nil && !errors.As(err, &fault):
		return nil, fmt.Errorf("baseline %s is not a report in JSON: %w; %s", file, err, advice)
	case report.Schema != Schema:
		return nil, fmt.Errorf("baseline %s has schema %q, want %q; %s", file, report.Schema, Schema, advice)
	case err != nil:
		return nil, fmt.Errorf("baseline %s: %w; %s", file, err, advice)
	}
	return &Baseline{report.Findings}, nil
}

// known holds the number of each finding in a baseline.
type known map[identity]int

// nothingError is the error for a finding without a rule or a message.
type nothingError struct{ number int }

func (e *nothingError) Error() string {
	return fmt.Sprintf("finding number %d has no rule or no message", e.number)
}

// UnmarshalJSON reads findings one at a time, and keeps only what identifies them: a list of very many empty findings takes no memory.
func (k *known) UnmarshalJSON(text []byte) error {
	*k = known{}
	if string(text) == "null" {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('[') {
		return cmp.Or(err, fmt.Errorf("its findings are %.20s, want a list", text))
	}
	for number := 1; decoder.More(); number++ {
		var f struct{ File, Package, Rule, Message string }
		if err := decoder.Decode(&f); err != nil {
			return fmt.Errorf("finding number %d: %w", number, err)
		}
		if f.Rule == "" || f.Message == "" {
			return &nothingError{number}
		}
		(*k)[identify(Finding{File: f.File, Package: f.Package, Rule: f.Rule, Message: f.Message})]++
	}
	return nil
}

// Of returns a report without known findings, and the number of findings in the baseline that are gone. Each finding of the baseline
// accounts for one finding of the report.
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
