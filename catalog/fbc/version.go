package fbc

import (
	"cmp"
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
