package findings_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
				if err := report.Write(&got, format); err != nil {
					t.Fatal(err)
				}
				golden := filepath.Join("testdata", name+"."+format)
				if *update {
					if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got.String()); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
	}
}

func TestReportOfUnknownFormat(t *testing.T) {
	err := sample.Write(&bytes.Buffer{}, "pdf")
	if err == nil || !strings.Contains(err.Error(), `"pdf"; expected one of json, junit, markdown, sarif, text`) {
		t.Errorf("got error %v", err)
	}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCount(t *testing.T) {
	if got := findings.Count(sample.Findings, findings.Error); got != 2 {
		t.Errorf("%d errors, want 2", got)
	}
}
