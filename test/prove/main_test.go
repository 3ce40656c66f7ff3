package main

import (
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/test/trials"
)

func TestTally(t *testing.T) {
	for _, tc := range []struct {
		name      string
		events    []trials.Event
		logs      bool
		table     string // without its head
		complaint string
		printed   string
	}{
		{name: "none", complaint: "no test ran"},
		{
			name: "passed",
			events: []trials.Event{
				{Action: "output", Test: "TestA/one/x", Output: "noise\n"},
				{Action: "pass", Test: "TestA/one/x"}, {Action: "pass", Test: "TestA/one/y"}, {Action: "pass", Test: "TestA/one"},
				{Action: "pass", Test: "TestA/two"}, {Action: "pass", Test: "TestA"}, {Action: "pass", Test: "TestB"}, {Action: "pass"},
			},
			table: "| TestA/one | 2 | 0 | 0 |\n| TestA/two | 1 | 0 | 0 |\n| TestB | 1 | 0 | 0 |\n",
		},
		{
			name: "failed",
			events: []trials.Event{
				{Action: "output", Test: "TestA/x", Output: "why\n"}, {Action: "fail", Test: "TestA/x"}, {Action: "pass", Test: "TestA/y"}, {Action: "fail", Test: "TestA"},
			},
			table: "| TestA | 0 | 1 | 0 |\n| TestA/x | 0 | 1 | 0 |\n| TestA/y | 1 | 0 | 0 |\n", complaint: "2 tests failed", printed: "why\n",
		},
		{
			name: "logged", logs: true,
			events: []trials.Event{
				{Action: "output", Test: "TestA/x", Output: "noise\n"}, {Action: "pass", Test: "TestA/x"},
				{Action: "output", Test: "TestA", Output: "the journal\n"}, {Action: "pass", Test: "TestA"},
			},
			table: "| TestA/x | 1 | 0 | 0 |\n", printed: "the journal\n",
		},
		{
			name:   "skipped",
			events: []trials.Event{{Action: "output", Test: "TestA", Output: "why\n"}, {Action: "skip", Test: "TestA"}, {Action: "pass", Test: "TestB"}},
			table:  "| TestA | 0 | 0 | 1 |\n| TestB | 1 | 0 | 0 |\n", complaint: "1 tests were skipped; a proof needs them all", printed: "why\n",
		},
		{
			name: "skipped, which this machine cannot run",
			events: []trials.Event{
				{Action: "output", Test: "TestA/ext4", Output: "why\n"}, {Action: "skip", Test: "TestA/ext4"}, {Action: "pass", Test: "TestA/xfs"}, {Action: "pass", Test: "TestA"},
			},
			table: "| TestA/ext4 | 0 | 0 | 1 |\n| TestA/xfs | 1 | 0 | 0 |\n\nNot shown on this machine: TestA/ext4:\nwhy\n",
		},
		{
			name:   "skipped, of which this machine could run one",
			events: []trials.Event{{Action: "skip", Test: "TestA/ext4"}, {Action: "skip", Test: "TestB"}},
			table:  "| TestA/ext4 | 0 | 0 | 1 |\n| TestB | 0 | 0 | 1 |\n\nNot shown on this machine: TestA/ext4:\n", complaint: "1 tests were skipped; a proof needs them all",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			sum := tally{out: &out, log: io.Discard, began: time.Now(), logs: tc.logs, optional: regexp.MustCompile("/ext4$"), outputs: map[string][]string{}, outcomes: map[string]string{}}
			for _, event := range tc.events {
				sum.add(event)
			}
			_, rows, _ := strings.Cut(sum.table(), "| --- | --- | --- | --- |\n")
			assert.Empty(t, cmp.Diff(tc.table, rows), "table (-want +got)")
			complaint := ""
			if err := sum.complaint(); err != nil {
				complaint = err.Error()
			}
			if complaint != tc.complaint || out.String() != tc.printed {
				t.Errorf("complaint %q, printed %q; want %q, %q", complaint, out.String(), tc.complaint, tc.printed)
			}
		})
	}
}

func TestRunNamesTheSuites(t *testing.T) {
	for _, args := range [][]string{nil, {""}, {"sweep"}} {
		err := run(t.Context(), args, &strings.Builder{})
		assert.ErrorContainsf(t, err, "sweep-switch ", "%q: got error", args)
	}
}

// TestReport: a suite prints its own report, and fails if that misses a test.
func TestReport(t *testing.T) {
	var out strings.Builder
	s := suite{report: func(outcomes map[string]string) (string, []string) {
		if outcomes["TestOne"] == "pass" {
			return "all\n", nil
		}
		return "some\n", []string{"TestOne"}
	}}
	assert.NoError(t, s.complaint(map[string]string{"TestOne": "pass"}, &out), "all have passed")
	assert.ErrorContains(t, s.complaint(nil, &out), "TestOne", "got error")
	assert.Equal(t, "\nall\n\nsome\n", out.String(), "printed")
}
