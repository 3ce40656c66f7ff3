package certification

import (
	"regexp"
	"slices"
	"strings"
)

// Kind is the kind of a reason.
type Kind string

const (
	// NotApplicable tests need a feature that the driver lacks, or that the manifest cannot describe.
	NotApplicable Kind = "does not apply"
	// NotHere tests need a feature that the tests' cluster lacks.
	NotHere Kind = "cannot run here"
	// Fails is for tests that run and fail.
	Fails Kind = "fails"
)

// Reason is why some tests do not pass.
type Reason struct {
	// Name is for records.
	Name string
	Kind Kind
	// Tests matches the names of the tests.
	Tests *regexp.Regexp
	// Without is a capability. The reason applies only to drivers whose manifest denies it; "" for all.
	Without string
	// Drivers are the names of the drivers that the reason applies to; empty for all.
	Drivers []string
	// Excluded tests are not tried: they would wait a long time for a missing feature, and then fail.
	Excluded bool
	Why      string
}

// Exclude returns a regular expression for the tests of a driver that are not tried, "" if all are.
func Exclude(driver string, has map[string]bool) string {
	var all []string
	for _, r := range reasons {
		if r.Excluded && r.applies(driver, has) {
			all = append(all, r.Tests.String())
		}
	}
	return strings.Join(all, "|")
}

// applies reports whether the reason is one of a driver with some capabilities.
func (r Reason) applies(driver string, has map[string]bool) bool {
	return (r.Without == "" || !has[r.Without]) && (len(r.Drivers) == 0 || slices.Contains(r.Drivers, driver))
}

// explains reports whether the reason is one for an outcome.
func (r Reason) explains(o Outcome) bool {
	return o.State != Pass && (o.State == Fail) == (r.Kind == Fails) && r.Tests.MatchString(o.Test)
}

// Explain returns the first reason for an outcome of a driver with some capabilities, and false without a reason.
func Explain(driver string, has map[string]bool, o Outcome) (Reason, bool) {
	at := slices.IndexFunc(reasons, func(r Reason) bool { return r.applies(driver, has) && r.explains(o) })
	if at < 0 {
		return Reason{}, false
	}
	return reasons[at], true
}
