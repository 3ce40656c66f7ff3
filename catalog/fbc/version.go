package fbc

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
)

// CompareVersions orders versions by precedence, then by build metadata, which tells rebuilds of a version apart. OLM v1 uses
// the same order.
func CompareVersions(a, b semver.Version) int {
	return cmp.Or(a.Compare(b), slices.CompareFunc(a.Build, b.Build, func(a, b string) int {
		first, errFirst := strconv.ParseUint(a, 10, 64)
		second, errSecond := strconv.ParseUint(b, 10, 64)
		switch {
		case errFirst == nil && errSecond == nil:
			return cmp.Or(cmp.Compare(first, second), strings.Compare(a, b))
		case errFirst == nil:
			return -1
		case errSecond == nil:
			return 1
		}
		return strings.Compare(a, b)
	}))
}

// maxRange is the maximum length of a range of versions, in bytes. To compare a version with a range takes time and stack in proportion
// to the length of the range.
const maxRange = 64 << 10

// UnusualRange says why ParseRange does not read a range that OLM does.
type UnusualRange string

func (r UnusualRange) Error() string { return string(r) }

// ParseRange parses a range of versions as OLM does, except for an UnusualRange: a range that is too long or has an empty alternative. The
// library parses empty alternatives, too, but panics when a version is compared with such a range.
func ParseRange(text string) (semver.Range, error) {
	if len(text) > maxRange {
		return nil, UnusualRange(fmt.Sprintf("it has %d bytes; expected at most %d", len(text), maxRange))
	}
	parsed, err := semver.ParseRange(text)
	if err != nil {
		return nil, err
	}
	if emptyAlternative.MatchString(text) {
		return nil, UnusualRange("one of its alternatives is empty: OLM's resolver crashes when it compares a version with it")
	}
	return parsed, nil
}

// emptyAlternative finds an alternative without comparisons between two others. The library ignores a single character between spaces.
var emptyAlternative = regexp.MustCompile(` \|\| +([^<>=] +)*\|\| `)

// MatchVersion returns the elements with exactly this version or else, if it has no build metadata, those whose version differs
// only in build metadata. number returns nil for elements without a version.
func MatchVersion[T any](version semver.Version, all []T, number func(T) *semver.Version) []T {
	matching := func(matches func(semver.Version) bool) (found []T) {
		for _, each := range all {
			if n := number(each); n != nil && matches(*n) {
				found = append(found, each)
			}
		}
		return found
	}
	if exact := matching(func(n semver.Version) bool { return CompareVersions(n, version) == 0 }); len(exact) > 0 || len(version.Build) > 0 {
		return exact
	}
	return matching(version.EQ)
}
