// Package mirror makes a smaller catalog from chosen packages, channels and versions, so that updates still work. It copies the smaller
// catalog with every image that it needs to a registry that a disconnected cluster can reach, or to a folder.
package mirror

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/olm/upgrade"
)

// headOnly is the range that stands for the head of a channel.
const headOnly = "head"

// Selection chooses versions of a package.
type Selection struct {
	Package string
	Channel string // empty for all channels
	Range   string // empty for all versions, headOnly for the head of each channel

	ranges []versionRange
}

// versionRange is one of the alternatives of a range: a version, or else a range.
type versionRange struct {
	version  *semver.Version
	contains semver.Range
}

// ParseSelection parses PACKAGE[/CHANNEL][@RANGE].
func ParseSelection(text string) (Selection, error) {
	what, versions, ranged := strings.Cut(text, "@")
	pkg, channel, inChannel := strings.Cut(what, "/")
	s := Selection{Package: pkg, Channel: channel, Range: versions}
	if pkg == "" || inChannel && channel == "" || ranged && versions == "" {
		return s, fmt.Errorf("selection %q: want PACKAGE[/CHANNEL][@RANGE], such as tide, tide/stable or 'tide/stable@>=1.2.0'", text)
	}
	if ranged && versions != headOnly {
		if _, err := semver.ParseRange(versions); err != nil {
			return s, fmt.Errorf("selection %q: %q is not a range of versions such as '>=1.2.0 <2.0.0', and not %q: %w%s", text, versions, headOnly, err, withoutV(versions))
		}
		s.ranges = alternatives(versions)
	}
	return s, nil
}

// prefixed matches a v before a version, as in Git tags.
var prefixed = regexp.MustCompile(`(^|[\s<>=!|])v(\d)`)

// withoutV returns a hint for a range that is valid once the v before its versions is removed.
func withoutV(versions string) string {
	plain := prefixed.ReplaceAllString(versions, "$1$2")
	if _, err := semver.ParseRange(plain); err != nil || plain == versions {
		return ""
	}
	return "; did you mean " + plain + "?"
}

// alternatives returns the alternatives of a valid range. A single version stays a version, because ranges ignore build metadata.
func alternatives(versions string) (all []versionRange) {
	for alternative := range strings.SplitSeq(versions, "||") {
		alternative = strings.TrimSpace(alternative)
		if version, err := semver.Parse(strings.TrimSpace(strings.TrimLeft(alternative, "="))); err == nil {
			all = append(all, versionRange{version: &version})
		} else if contains, err := semver.ParseRange(alternative); err == nil {
			all = append(all, versionRange{contains: contains.AND(rebuilds(alternative))})
		}
	}
	return all
}

// inclusive matches bounds that include their own version, such as >=1.2.0.
var inclusive = regexp.MustCompile(`([<>])=\s*([^\s<>=]+)`)

// rebuilds returns the condition that bounds with build metadata add to a range: >=1.2.0+2 excludes
// 1.2.0+1, and <=1.2.0+2 excludes 1.2.0+3.
func rebuilds(alternative string) semver.Range {
	var all []semver.Range
	for _, bound := range inclusive.FindAllStringSubmatch(alternative, -1) {
		if limit, err := semver.Parse(bound[2]); err == nil && len(limit.Build) > 0 {
			wrong := map[string]int{">": -1, "<": 1}[bound[1]]
			all = append(all, func(v semver.Version) bool { return fbc.CompareVersions(v, limit) != wrong })
		}
	}
	return func(v semver.Version) bool {
		return !slices.ContainsFunc(all, func(within semver.Range) bool { return !within(v) })
	}
}

// String returns the selection as on the command line.
func (s Selection) String() string {
	text := s.Package
	if s.Channel != "" {
		text += "/" + s.Channel
	}
	if s.Range != "" {
		text += "@" + s.Range
	}
	return text
}

// chosen returns the entries of a channel that the selection chooses.
func (s Selection) chosen(g *upgrade.Graph) (all []*upgrade.Entry) {
	switch {
	case s.Range == "":
		return g.Entries
	case s.Range == headOnly && len(g.Heads) == 1:
		return g.Heads
	}
	for _, r := range s.ranges {
		all = append(all, r.chosen(g)...)
	}
	return all
}

// chosen returns the entries of a channel that an alternative chooses. A version chooses only its exact match, if there is one.
func (r versionRange) chosen(g *upgrade.Graph) (all []*upgrade.Entry) {
	if r.version != nil {
		return fbc.MatchVersion(*r.version, g.Entries, func(e *upgrade.Entry) *semver.Version { return e.Number })
	}
	for _, e := range g.Entries {
		if e.Number != nil && r.contains(*e.Number) {
			all = append(all, e)
		}
	}
	return all
}
