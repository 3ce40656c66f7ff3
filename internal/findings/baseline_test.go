package findings_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/findings"
)

// written writes a report as JSON, and returns the file.
func written(t *testing.T, r findings.Report) string {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, r.Write(&text, "json"))
	file := filepath.Join(t.TempDir(), "known.json")
	require.NoError(t, os.WriteFile(file, text.Bytes(), 0o644))
	return file
}

// TestBaseline: a finding is known if rule, package and message are the same. Lines in files and messages may change, and so may
// the file of a finding about a package. Each finding of the baseline stands for one.
func TestBaseline(t *testing.T) {
	report := func(found ...*findings.Finding) findings.Report { return findings.Report{Findings: found} }
	baseline, err := findings.ReadBaseline(written(t, report(
		salty.Finding("a.yaml", "first at sea/a.yaml:12:3, line 7").At(1, 2).In("tide"),
		salty.Finding("b.yaml", "twice"),
		salty.Finding("b.yaml", "twice"),
		salty.Finding("c.yaml", "hidden \x1b \u202e \xff ##[x]"),
		salty.Finding("d.yaml", "gone"),
	)))
	require.NoError(t, err)
	fresh := []*findings.Finding{
		salty.Finding("a.yaml", "first at sea/a.yaml:12:3, line 7").In("ebb"),  // another package
		salty.Finding("a.yaml", "first at sea/b.yaml:12:3, line 7").In("tide"), // another file in the message
		wet.Finding("b.yaml", "twice"),                                         // another rule
		salty.Finding("a.yaml", "twice"),                                       // another file
		salty.Finding("b.yaml", "twice"),                                       // the third
		salty.Finding("c.yaml", "registry.example.com/tide:12"),                // no line
	}
	known := []*findings.Finding{
		salty.Finding("b.yaml", "first at sea/a.yaml:99:1, line 8").At(50, 0).In("tide"),
		salty.Finding("b.yaml", "twice").At(3, 3),
		salty.Finding("b.yaml", "twice").At(4, 3),
		salty.Finding("c.yaml", "hidden \x1b \u202e \xff ##[x]"),
	}
	for range 2 { // it can be used again
		got, gone := baseline.Of(report(append(known, fresh...)...))
		assert.Empty(t, cmp.Diff(fresh, got.Findings), "-want +got")
		if got.Known != len(known) || gone != 1 {
			t.Errorf("%d are known and %d are gone, want %d and 1", got.Known, gone, len(known))
		}
	}
}

func TestBaselineThatCannotBeRead(t *testing.T) {
	for content, want := range map[string]string{
		"":                             "is not a report in JSON: unexpected end of JSON input; write it with -o json",
		"schema: x":                    "is not a report in JSON",
		`{"schema": "berth.rules.v1"}`: `has schema "berth.rules.v1", want "berth.findings.v1"`,
		`{"schema": "\u001b[31m"}`:     `has schema "\x1b[31m", want`,
		strings.Repeat("[", 1<<20):     "exceeded max depth",
		strings.Repeat(" ", 16<<20+1):  "is larger than 16 MiB",
	} {
		file := filepath.Join(t.TempDir(), "known.json")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
		_, err := findings.ReadBaseline(file)
		assert.ErrorContainsf(t, err, want, "%.20q", content)
	}
}

// TestManyInBaseline: a baseline takes memory for the findings that it knows, and not for each that says nothing.
func TestManyInBaseline(t *testing.T) {
	for name, one := range map[string]string{
		"empty findings":          `{}`,
		"the same finding":        `{"rule":"r","message":"m"}`,
		"fields nobody asked for": `{"rule":"r","message":"m","fix":[{},{},{},{},{},{},{},{}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			n := (15 << 20) / (len(one) + 1)
			text := []byte(`{"schema":"berth.findings.v1","findings":[` + strings.Repeat(one+",", n) + one + `]}`)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := findings.ParseBaseline("known.json", text)
			runtime.ReadMemStats(&after)
			if most, used := uint64(300<<20), after.TotalAlloc-before.TotalAlloc; used > most {
				t.Errorf("%d findings take %d MiB, want at most %d (%v)", n, used>>20, most>>20, err)
			}
			if name == "empty findings" && (err == nil || !strings.Contains(err.Error(), "finding number 1 has no rule or no message")) {
				t.Errorf("got %v", err)
			}
		})
	}
}
