// Package failures lists what can go wrong while a driver is handed over to the cluster storage operator, and what comes of it.
// `make test-all` prints the table with the outcome of the tests of each in that run, and docs/adopt.md shows it.
//
// A test of a failure has its number in a part of its name, such as "F5: the Secret changes when no old pod is left". One of several
// failures is "F1, F2: ...".
package failures

import (
	"fmt"
	"regexp"
	"strings"
)

// Failure is something that can go wrong, and what comes of it.
type Failure struct {
	// Failure is what goes wrong. Its number is its position in the list, from 1.
	Failure string
	// Comes is what comes of it: how the driver survives, or which check refuses the hand-over.
	Comes string
}

// All are the failures that are known.
var All = []Failure{
	{"somebody deletes the `ManilaDriver` while its operator runs",
		"before: refused, `management-state`. During: the hand-over stops. `berth adopt` itself never writes it"},
	{"the same with the `AWSEBSDriver`, when there are no volumes but snapshots",
		"the same"},
	{"old and new node pods of EBS at the same time on a node, one deletes the socket of the other",
		"cannot happen: the DaemonSet stays the same one, and ends the old pod of a node before it starts the new one"},
	{"two operators at the same time",
		"the cluster storage operator starts its own when the old pods are gone"},
	{"a Secret changes before the pods that read it",
		"`berth adopt` writes no Secrets. The new operator leaves `csi-manila-secrets` as it is, which new pods understand, until the last old pod is gone"},
	{"the CSIDriver is missing for a moment",
		"nothing deletes it: it is updated in place"},
	{"the driver goes while volumes are attached",
		"nothing deletes workloads or attachments"},
	{"credentials are revoked too early",
		"CredentialsRequests and their Secrets stay"},
	{"a selector differs, and nobody can change it",
		"refused, `selectors`"},
	{"the API, a namespace or a ClusterExtension is deleted, and finalizers run",
		"nothing deletes APIs or namespaces. A ClusterExtension is deleted without what it has installed, and only by `berth adopt apply`"},
	{"an update is pending or half done, there is a second Subscription, or another catalog",
		"refused, `pending-update`, `installed-version`, `subscriptions`; the catalog does not matter"},
	{"the tool crashes, a cache is old, a permission or OLM is missing",
		"the same command continues; preconditions fail on old state"},
	{"somebody subscribes again, such as a GitOps tool",
		"during: the hand-over stops and names the Subscription. After: storage stays available, the cluster storage operator reports it, and another `berth adopt apply` removes it"},
	{"a roll-out is paused, or a node is not ready",
		"a roll-out that is paused or under way is refused, `rollout`; nodes that are not ready are named, and do not hold up the others"},
	{"Manila cannot be reached",
		"the driver stays as it is, and the platform's storage is available: see [Manila](install-ebs-manila.md#manila)"},
}

// Markdown returns the table in Markdown.
func Markdown() string {
	var text strings.Builder
	text.WriteString("| | what happens | what comes of it |\n| --- | --- | --- |\n")
	for i, f := range All {
		fmt.Fprintf(&text, "| %d | %s | %s |\n", i+1, f.Failure, f.Comes)
	}
	return text.String()
}

// Outcome counts the tests of a failure in a run.
type Outcome struct{ Passed, Failed int }

// Survived reports whether the run shows what comes of the failure.
func (o Outcome) Survived() bool { return o.Passed > 0 && o.Failed == 0 }

func (o Outcome) String() string {
	switch {
	case o.Failed > 0:
		return "FAILED"
	case o.Passed == 0:
		return "not tried"
	}
	return fmt.Sprintf("%d passed", o.Passed)
}

var (
	named  = regexp.MustCompile(`^F\d+(?:,[ _]F\d+)*:`)
	number = regexp.MustCompile(`F(\d+)`)
)

// Of returns the numbers of the failures that a test is of, by its name.
func Of(test string) []int {
	var found []int
	for part := range strings.SplitSeq(test, "/") {
		for _, match := range number.FindAllStringSubmatch(named.FindString(part), -1) {
			var n int
			if _, err := fmt.Sscan(match[1], &n); err == nil {
				found = append(found, n)
			}
		}
	}
	return found
}

// Report returns the table as text, with the outcome of each failure by its number, and the numbers of those that the run does
// not show.
func Report(outcomes map[int]Outcome) (text string, open []int) {
	var table strings.Builder
	for i, f := range All {
		outcome := outcomes[i+1]
		fmt.Fprintf(&table, "  F%-2d  %-9s  %s: %s\n", i+1, outcome, plain(f.Failure), plain(f.Comes))
		if !outcome.Survived() {
			open = append(open, i+1)
		}
	}
	return table.String(), open
}

var link = regexp.MustCompile(`\[([^]]*)\]\(([^)]*)\)`)

// plain is Markdown without its marks.
func plain(text string) string {
	return strings.ReplaceAll(link.ReplaceAllString(text, "$1"), "`", "")
}

// Add adds what a test did, such as "pass", to the outcomes of its failures.
func Add(outcomes map[int]Outcome, test, action string) {
	for _, n := range Of(test) {
		o := outcomes[n]
		switch action {
		case "pass":
			o.Passed++
		case "fail":
			o.Failed++
		}
		outcomes[n] = o
	}
}
