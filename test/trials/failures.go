package trials

import (
	"fmt"
	"regexp"
	"strings"
)

// Failure is something that can go wrong while a driver is handed over to the cluster storage operator, and its
// outcome.
//
// The name of a test of a failure has a part with the failure's number, such as "F5: the Secret changes when no old pod is left". For
// several failures, the part is "F1, F2: ...".
type Failure struct {
	// Failure describes it. Its number is its position in the list, from 1.
	Failure string
	// Outcome says how the driver survives, or which check refuses the hand-over.
	Outcome string
}

// Failures are the known failures.
var Failures = []Failure{
	{"somebody deletes the `ManilaDriver` while its operator runs",
		"before: refused, `management-state`. During: the hand-over stops. `berth adopt` itself never writes it"},
	{"the same with the `AWSEBSDriver`, when there are snapshots but no volumes",
		"the same"},
	{"an old and a new node pod of EBS are on a node at the same time, and one deletes the socket of the other",
		"cannot happen: the DaemonSet stays the same one, and ends the old pod of a node before it starts the new one"},
	{"two operators at the same time",
		"the cluster storage operator starts its own when the old pods are gone"},
	{"a Secret changes before the pods that read it",
		"`berth adopt` writes no Secrets. Until the last old pod is gone, the new operator leaves `csi-manila-secrets` as it is: new pods understand that, too"},
	{"the CSIDriver is missing for a moment",
		"nothing deletes it: it is updated in place"},
	{"the driver goes while volumes are attached",
		"nothing deletes workloads or attachments"},
	{"credentials are revoked too early",
		"CredentialsRequests and their Secrets stay"},
	{"a selector differs, and nobody can change it",
		"refused, `selectors`"},
	{"the API, a namespace or a ClusterExtension is deleted, and finalizers run",
		"nothing deletes APIs or namespaces. Only `berth adopt apply` deletes a ClusterExtension, and it orphans the objects"},
	{"an update is pending or half done, or there is a second Subscription or another catalog",
		"refused, `pending-update`, `installed-version`, `subscriptions`; the catalog does not matter"},
	{"the tool crashes, a cache is old, a permission or OLM is missing",
		"the same command continues; preconditions fail on old state"},
	{"somebody subscribes again, such as a GitOps tool",
		"during: the hand-over stops and names the Subscription. After: storage stays available, the cluster storage operator reports it, and another `berth adopt apply` removes it"},
	{"a roll-out is paused, or a node is not ready",
		"a roll-out that is paused or under way is refused, `rollout`; nodes that are not ready are named, and do not hold up the others"},
	{"Manila cannot be reached",
		"the driver stays as it is, and the platform's storage is available: see [Manila](../start/install-ebs-manila.md#manila)"},
}

// failureTable returns the failures in Markdown.
func failureTable() string {
	var text strings.Builder
	text.WriteString("| | what happens | what comes of it |\n| --- | --- | --- |\n")
	for i, f := range Failures {
		fmt.Fprintf(&text, "| %d | %s | %s |\n", i+1, f.Failure, f.Outcome)
	}
	return text.String()
}

var (
	named  = regexp.MustCompile(`^F\d+(?:,[ _]F\d+)*:`)
	digits = regexp.MustCompile(`F(\d+)`)
)

// numbers returns the numbers of the failures that a test tries, from the test's name.
func numbers(test string) []int {
	var found []int
	for part := range strings.SplitSeq(test, "/") {
		for _, match := range digits.FindAllStringSubmatch(named.FindString(part), -1) {
			var n int
			if _, err := fmt.Sscan(match[1], &n); err == nil {
				found = append(found, n)
			}
		}
	}
	return found
}

var link = regexp.MustCompile(`\[([^]]*)\]\(([^)]*)\)`)

// plain returns Markdown without its marks.
func plain(text string) string {
	return strings.ReplaceAll(link.ReplaceAllString(text, "$1"), "`", "")
}
