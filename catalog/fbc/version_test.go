package fbc_test

import (
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
