package findings_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/findings"
)

var update = flag.Bool("update", false, "update the golden files")

var (
	salty  = findings.Rule{ID: "salty", Severity: findings.Error, What: "Sea water is salty.", Why: "Fish would drown."}
	wet    = findings.Rule{ID: "wet", Severity: findings.Warning, What: "Water is wet."}
	sample = findings.Report{
		Tool:    "taste",
		Subject: "the sea",
		Rules:   []findings.Rule{salty, wet},
		Findings: []*findings.Finding{
			salty.Finding("sea", "no salt in %q", "<North & Baltic>"),
			salty.Finding("sea/a b.yaml", "sweet").At(3, 7),
			wet.Finding("sea/c.json", "dry").At(12, 0),
		},
	}
)

// TestReport compares reports with and without findings, in all formats, with testdata.
func TestReport(t *testing.T) {
	nothing := sample
	nothing.Findings = nil
	for name, report := range map[string]findings.Report{"findings": sample, "nothing": nothing} {
		for _, format := range findings.Formats() {
			t.Run(name+"."+format, func(t *testing.T) {
				var got bytes.Buffer
				require.NoError(t, report.Write(&got, format))
				golden := filepath.Join("testdata", name+"."+format)
				if *update {
					require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
				}
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				assert.Empty(t, cmp.Diff(string(want), got.String()), "-want +got")
			})
		}
	}
}

func TestReportOfUnknownFormat(t *testing.T) {
	err := sample.Write(&bytes.Buffer{}, "pdf")
	assert.ErrorContains(t, err, `"pdf"; expected one of json, junit, markdown, sarif, text`)
}

func TestSort(t *testing.T) {
	want := []*findings.Finding{
		salty.Finding("a", ""),
		salty.Finding("a", "").At(1, 0),
		salty.Finding("a", "one").At(1, 5),
		salty.Finding("a", "two").At(1, 5),
		wet.Finding("a", "a").At(1, 5),
		wet.Finding("a", "").At(2, 1),
		wet.Finding("b", ""),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	findings.Sort(got)
	assert.Empty(t, cmp.Diff(want, got), "-want +got")
}

// TestLongTexts: thousands of findings may quote one name of megabytes.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("t", 1<<20)
	for _, args := range [][]any{{long, 1}, {errors.New(long), 1}} {
		f := findings.Rule{}.Finding("a", "%v is number %d", args...).In(long)
		assert.Less(t, len(f.Message), 5000)
		assert.True(t, strings.HasPrefix(f.Message, "ttt"))
		assert.Contains(t, f.Message, "more characters)")
		assert.Less(t, len(f.Package), 5000)
	}
}

func TestCount(t *testing.T) {
	if got := findings.Count(sample.Findings, findings.Error); got != 2 {
		t.Errorf("%d errors, want 2", got)
	}
}
