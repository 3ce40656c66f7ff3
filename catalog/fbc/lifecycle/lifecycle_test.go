package lifecycle

import (
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/stretchr/testify/assert"
)

// TestAt: how a version is supported on days before, in, between and after its phases.
func TestAt(t *testing.T) {
	v := &Version{Name: "1.1", Phases: []Phase{
		{"Full support", "2024-01-01", "2024-06-30"}, {"Maintenance support", "2024-07-01", "2025-06-30"},
		{"", "soon", "2025-07-31"}, // a rule reports it
		{"Extended update support", "2025-08-01", "2026-06-30"},
	}}
	for day, want := range map[Date]string{
		"2023-12-31": "begins on 2024-01-01",
		"2024-01-01": "Full support until 2024-06-30",
		"2024-06-30": "Full support until 2024-06-30",
		"2024-07-01": "Maintenance support until 2025-06-30",
		"2025-07-01": "in a gap between phases; supported again later, until 2026-06-30",
		"2026-06-30": "Extended update support until 2026-06-30",
		"2026-07-01": "ended on 2026-06-30",
	} {
		assert.Equalf(t, want, v.At(day).String(), "on %s", day)
	}
	for name, unknown := range map[string]*Version{"no version": nil, "no phase": {Name: "1.2"}, "no date": {Phases: []Phase{{"Full support", "soon", "later"}}}} {
		if got := unknown.At("2024-01-01"); got != nil || got.String() != "" {
			t.Errorf("of %s: %v", name, got)
		}
	}
}

// TestLongPhase: the support of a version has the beginning of a phase's name, as thousands of versions can be in the same phase.
func TestLongPhase(t *testing.T) {
	v := &Version{Name: "1.1", Phases: []Phase{{strings.Repeat("x", 100_000), "2024-01-01", "2024-06-30"}}}
	assert.Equal(t, strings.Repeat("x", 100)+"… (99900 more characters) until 2024-06-30", v.At("2024-01-01").String())
}

// TestFind: a lifecycle names minor versions, each of which stands for all of its patches.
func TestFind(t *testing.T) {
	l := &Lifecycle{Versions: []Version{{Name: "1.1"}, {Name: "1.10"}}}
	for text, want := range map[string]string{"1.1.0": "1.1", "1.1.7-rc.1": "1.1", "1.10.3": "1.10", "2.1.0": ""} {
		number := semver.MustParse(text)
		got := ""
		if v := l.Find(&number); v != nil {
			got = v.Name
		}
		assert.EqualValuesf(t, want, got, "%s has the lifecycle of", text)
	}
	if l.Find(nil) != nil || (*Lifecycle)(nil).Find(&semver.Version{}) != nil {
		t.Error("what has no version, or no lifecycle, has one")
	}
}

// TestNumber: names of versions have two numbers.
func TestNumber(t *testing.T) {
	for name, want := range map[string]bool{"4.12": true, "0.0": true, "1": false, "1.2.3": false, "v1.2": false, "1.02": false, "": false, "1.99999999999": false} {
		assert.Equalf(t, want, Number(name) != nil, "%q is one", name)
	}
}
