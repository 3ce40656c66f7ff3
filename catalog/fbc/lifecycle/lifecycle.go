// Package lifecycle reads lifecycles: documents of catalogs that say until when the versions of a package are supported, and which
// versions of a platform they run on. OLM ignores them, and OpenShift's console shows them.
//
// Source: https://github.com/openshift/enhancements/blob/master/enhancements/olm/lifecycle-and-compatibility.md (pull request 1991).
package lifecycle

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/blang/semver/v4"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// Schema is the schema of the documents.
const Schema = "io.openshift.operators.lifecycles.v1alpha1"

// Lifecycle is the lifecycle of a package, with the field names of Schema.
type Lifecycle struct {
	Schema   string    `json:"schema"`
	Package  string    `json:"package"`
	Versions []Version `json:"versions"`

	first map[string]int // the index of the first Version of each name, set by Find
}

// Version is the lifecycle of a minor version of the package.
type Version struct {
	// Name is MAJOR.MINOR. It stands for all versions that begin with it.
	Name string `json:"name"`
	// Phases are in order. Each begins on the day after the previous one ends.
	Phases []Phase `json:"phases"`
	// Platforms are the platforms that the version runs on, if they are known.
	Platforms []Platform `json:"platformCompatibility,omitempty"`
}

// Phase is a phase of support.
type Phase struct {
	Name string `json:"name"`
	// Start and End are its first and its last day.
	Start Date `json:"startDate"`
	End   Date `json:"endDate"`
}

// Platform is a platform and the versions of it that a version of the package runs on.
type Platform struct {
	Name     string   `json:"name"`
	Versions []string `json:"versions"` // MAJOR.MINOR
}

// OpenShift is the name of a Platform.
const OpenShift = "openshift"

// Date is a day, as YYYY-MM-DD. The texts of valid dates sort by time.
type Date string

// DateOf returns the day of a time, in UTC.
func DateOf(t time.Time) Date { return Date(t.UTC().Format(time.DateOnly)) }

// Time returns the beginning of the day, in UTC. It fails if this is not a date.
func (d Date) Time() (time.Time, error) { return time.Parse(time.DateOnly, string(d)) }

// isValid reports whether this is a date.
func (d Date) isValid() bool {
	_, err := d.Time()
	return err == nil
}

// next returns the day after a valid date.
func (d Date) next() Date {
	t, _ := d.Time()
	return DateOf(t.AddDate(0, 0, 1))
}

var majorMinor = regexp.MustCompile(`^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})$`)

// Minor returns the minor version that a version belongs to, as lifecycles name it.
func Minor(v semver.Version) string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Number returns the first version that the name of a Version stands for, or nil if the name is not MAJOR.MINOR.
func Number(name string) *semver.Version {
	if !majorMinor.MatchString(name) {
		return nil
	}
	v, err := semver.ParseTolerant(name)
	if err != nil {
		return nil
	}
	return &v
}

// Find returns the lifecycle of a version of the package, or nil if it is not known. l may be nil.
func (l *Lifecycle) Find(version *semver.Version) *Version {
	if l == nil || version == nil {
		return nil
	}
	if l.first == nil {
		l.first = map[string]int{}
		for i, v := range slices.Backward(l.Versions) {
			l.first[v.Name] = i
		}
	}
	if i, has := l.first[Minor(*version)]; has {
		return &l.Versions[i]
	}
	return nil
}

// On returns the versions of a platform that a version runs on, or none if that is not known.
func (v *Version) On(platform string) []string {
	if i := slices.IndexFunc(v.Platforms, func(p Platform) bool { return p.Name == platform }); i >= 0 {
		return v.Platforms[i].Versions
	}
	return nil
}

// State says how a version is supported on a day.
type State string

// The states.
const (
	// Supported: a phase includes the day.
	Supported State = "supported"
	// Ended: all phases have ended.
	Ended State = "ended"
	// Upcoming: no phase has begun.
	Upcoming State = "upcoming"
	// Between: the day is in a gap between phases.
	Between State = "between"
)

// Support says how a version is supported on a day.
type Support struct {
	// Version is the minor version in the lifecycle: MAJOR.MINOR.
	Version string `json:"version"`
	State   State  `json:"state"`
	// Phase is the phase that includes the day, and Until is the last day of that phase. Both are empty if no phase includes the day.
	Phase string `json:"phase,omitempty"`
	Until Date   `json:"until,omitempty"`
	// Begins is the first day of the first phase, and Ends the last day of the last one.
	Begins Date `json:"begins"`
	Ends   Date `json:"ends"`
}

// longestPhase is the number of characters of a phase's name that Support has. Thousands of versions of a package can be in the same phase.
const longestPhase = 100

// At returns how a version is supported on a day, or nil if that is not known: v may be nil, or have no phase with dates.
func (v *Version) At(day Date) *Support {
	if v == nil {
		return nil
	}
	s := &Support{Version: v.Name, State: Between}
	for _, p := range v.Phases {
		if !p.Start.isValid() || !p.End.isValid() {
			continue
		}
		if s.State != Supported && p.Start <= day && day <= p.End {
			s.State, s.Phase, s.Until = Supported, escape.Short(p.Name, longestPhase), p.End
		}
		s.Begins, s.Ends = cmp.Or(min(s.Begins, p.Start), p.Start), max(s.Ends, p.End)
	}
	switch {
	case s.Ends == "":
		return nil
	case day > s.Ends:
		s.State = Ended
	case day < s.Begins:
		s.State = Upcoming
	}
	return s
}

// String describes the support in a few words.
func (s *Support) String() string {
	switch {
	case s == nil:
		return ""
	case s.State == Supported:
		return fmt.Sprintf("%s until %s", s.Phase, s.Until)
	case s.State == Ended:
		return fmt.Sprintf("ended on %s", s.Ends)
	case s.State == Upcoming:
		return fmt.Sprintf("begins on %s", s.Begins)
	}
	return fmt.Sprintf("in a gap between phases; supported again later, until %s", s.Ends)
}
