package fbc_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/catalog/fbc"
)

// TestCompareVersions: versions in the order from the first to the last.
func TestCompareVersions(t *testing.T) {
	var all []semver.Version
	for _, text := range []string{"1.0.0-rc.1", "1.0.0-rc.1+1", "1.0.0", "1.0.0+1", "1.0.0+2", "1.0.0+10", "1.0.0+10.1", "1.0.0+10.a", "1.0.0+a", "1.0.0+b", "1.0.1"} {
		all = append(all, semver.MustParse(text))
	}
	for i, a := range all {
		for j, b := range all {
			if got, want := fbc.CompareVersions(a, b), max(-1, min(1, i-j)); got != want {
				t.Errorf("%s and %s: got %d, want %d", a, b, got, want)
			}
		}
	}
}

// TestMatchVersion: an exact match comes first, and unknown build metadata matches nothing.
func TestMatchVersion(t *testing.T) {
	rebuilt, plain := []string{"1.0.0+1", "1.0.0+2", "1.0.0+10", "1.1.0", ""}, []string{"1.0.0", "1.0.0+1"}
	for _, tc := range []struct {
		all     []string
		version string
		want    string
	}{
		{rebuilt, "1.0.0+2", "1.0.0+2"}, {rebuilt, "1.0.0", "1.0.0+1 1.0.0+2 1.0.0+10"}, {rebuilt, "1.0.0+3", ""}, {rebuilt, "1.1.0", "1.1.0"}, {rebuilt, "1.1.0+1", ""},
		{plain, "1.0.0", "1.0.0"}, {plain, "1.0.0+1", "1.0.0+1"},
	} {
		found := fbc.MatchVersion(semver.MustParse(tc.version), slices.Clone(tc.all), func(text string) *semver.Version {
			if number, err := semver.Parse(text); err == nil {
				return &number
			}
			return nil
		})
		assert.EqualValuesf(t, tc.want, strings.Join(found, " "), "%s of %v", tc.version, tc.all)
	}
}

func TestParseRange(t *testing.T) {
	const longest = 64 << 10
	for _, test := range []struct{ text, says string }{
		{">=1.0.0 <2.0.0 || 3.0.0", ""},
		{"1.x || 2.x", ""},
		{"1.0.0" + strings.Repeat(" || 1.0.0", (longest-5)/9), ""},
		{"1.0.0" + strings.Repeat(" || 1.0.0", longest/9+1), "65543 bytes; expected at most 65536"},
		{"1.0.0 || || 2.0.0", "one of its alternatives is empty"},
		{"1.0.0 ||   || 2.0.0", "one of its alternatives is empty"},
		{"1.0.0 || ! x || 2.0.0", "one of its alternatives is empty"}, // single characters count for nothing
		{"1.0.0 ||", "Last element"},
		{"tide", "version"},
	} {
		parsed, err := fbc.ParseRange(test.text)
		if test.says != "" {
			assert.ErrorContains(t, err, test.says, "%.40q", test.text)
			continue
		}
		if assert.NoError(t, err, "%.40q", test.text) {
			assert.True(t, parsed(semver.MustParse("1.0.0")))
			assert.False(t, parsed(semver.MustParse("9.0.0")))
		}
	}
}

// TestParseRangePanics: whatever is parsed can be compared with any version.
func TestParseRangePanics(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"||", " ", "|", "1.0.0", "2.0.0", "x", ">", "!", "1", "  ", "=", "<3.0.0", "1.x", " || "}
	parsed := 0
	for range 20_000 {
		var text strings.Builder
		for range 1 + random.IntN(9) {
			text.WriteString(parts[random.IntN(len(parts))])
		}
		in, err := fbc.ParseRange(text.String())
		if err != nil {
			continue
		}
		parsed++
		for _, version := range []string{"0.0.1", "1.0.0", "2.0.0", "3.0.0", "9.0.0"} {
			assert.NotPanics(t, func() { in(semver.MustParse(version)) }, "%q", text.String())
		}
	}
	assert.Greater(t, parsed, 1000, "too few of the texts are ranges")
}
