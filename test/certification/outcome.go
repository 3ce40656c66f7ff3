// Package certification runs Kubernetes' external storage tests of each driver's manifest (package deploy/certification) on a testbed:
// the real e2e.test, the real driver and its sidecars, on real nodes, in a simulated cloud. `make prove SUITE=certification-DRIVER` does
// that, and compares the outcomes with the record in testdata, the source of the table in docs/reference/certification.md. A test that
// does not pass needs a reason in reasons.go.
package certification

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Outcome is the outcome of a test.
type Outcome struct {
	// Test is the test's name without the driver's, such as "[Testpattern: Dynamic PV (default fs)] subPath should …".
	Test string
	// State is "pass", "fail" or "skip".
	State string
	// Message says why it did not pass. A test that skips itself says so.
	Message string
}

// States of outcomes.
const (
	Pass = "pass"
	Fail = "fail"
	Skip = "skip"
)

// ginkgoReport is ginkgo's report of a suite.
type ginkgoReport struct {
	SpecReports []struct {
		ContainerHierarchyTexts []string
		LeafNodeType            string
		LeafNodeText            string
		State                   string
		Failure                 struct{ Message string }
		AdditionalFailures      []struct{ Failure struct{ Message string } }
	}
}

// prefix returns the beginning of the names of a driver's external storage tests.
func prefix(csiName string) string { return "External Storage [Driver: " + csiName + "] " }

// Read reads a report of ginkgo, in JSON. It returns the outcomes of the external storage tests of a driver, sorted,
// and fails without outcomes, or if anything beside the tests failed, such as the preparation of the cluster.
func Read(from io.Reader, csiName string) ([]Outcome, error) {
	var reports []ginkgoReport
	if err := json.NewDecoder(from).Decode(&reports); err != nil {
		return nil, fmt.Errorf("read the report of ginkgo: %w", err)
	}
	var outcomes []Outcome
	for _, report := range reports {
		for _, spec := range report.SpecReports {
			name := strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")
			state := states[spec.State]
			test, external := strings.CutPrefix(name, prefix(csiName))
			switch {
			case spec.LeafNodeType != "It" && state == Fail:
				return nil, fmt.Errorf("%s %s: %s: %s", spec.LeafNodeType, name, spec.State, spec.Failure.Message)
			case !external:
				continue
			case state == "":
				return nil, fmt.Errorf("test %q has the state %q: want one that ginkgo gives to a test that was not interrupted", name, spec.State)
			}
			outcomes = append(outcomes, Outcome{Test: test, State: state, Message: spec.Failure.Message})
		}
	}
	if len(outcomes) == 0 {
		return nil, fmt.Errorf("the report of ginkgo has no test whose name begins with %q", prefix(csiName))
	}
	slices.SortFunc(outcomes, func(a, b Outcome) int { return strings.Compare(a.Test, b.Test) })
	return outcomes, nil
}

// states maps ginkgo's states to the states of outcomes.
var states = map[string]string{
	"passed": Pass, "skipped": Skip, "pending": Skip,
	"failed": Fail, "panicked": Fail, "timedout": Fail, "aborted": Fail,
}
