package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// examineCustomResource examines the reports of the driver's operator.
func examineCustomResource(_ context.Context, p *examinedDriver) ([]findings.Check, error) {
	if p.driverErr != nil {
		return nil, p.driverErr
	}
	return judgeCustomResource(p.driver.CSIName, p.custom, p.inactive), nil
}

// judgeCustomResource judges the operator's reports, which are out of date if it is inactive.
func judgeCustomResource(name string, custom *operatorv1.ClusterCSIDriver, inactive bool) []findings.Check {
	describe := escape.Command("oc describe clustercsidriver %s", name)
	if custom == nil {
		return []findings.Check{findings.Fail(customResourceMissing, "create it, with spec.managementState Managed: see "+findings.Page("start/install.md#install-the-driver"), "ClusterCSIDriver %s does not exist, so nobody has asked for the driver", name)}
	}
	var results []findings.Check
	if at := custom.DeletionTimestamp; at != nil {
		results = append(results, findings.Warn(removing, "see what a removal waits for: "+findings.Page("operate/uninstall.md#what-a-removal-waits-for"), "ClusterCSIDriver %s is being deleted since %s", name, at.UTC().Format("2006-01-02 15:04 MST")))
	}
	switch state := custom.Spec.ManagementState; state {
	case operatorv1.Managed:
	case operatorv1.Unmanaged:
		results = append(results, findings.Warn(unmanaged, "set spec.managementState to Managed when you want it reconciled again", "spec.managementState is Unmanaged: the operator does not reconcile, and the driver keeps running"))
	case operatorv1.Removed:
		results = append(results, findings.Warn(removed, "to keep the driver, set spec.managementState to Managed; see "+findings.Page("operate/uninstall.md"), "spec.managementState is Removed: the operator removes the driver"))
	default:
		results = append(results, findings.Fail(managementState, "set it to Managed, Unmanaged or Removed", "spec.managementState is %q, so the driver is left as it is", state))
	}
	if len(custom.Status.Conditions) == 0 {
		return append(results, findings.Fail(conditionsMissing, "see the operator above: it does not run, or waits for permissions", "no operator has reported anything in ClusterCSIDriver %s", name))
	}
	bad := judgeConditions(custom.Status.Conditions, describe)
	seen := custom.Status.ObservedGeneration
	observed := seen == 0 || seen >= custom.Generation // other projects' operators do not report it
	if !observed {
		results = append(results, findings.Fail(generationUnobserved, "if somebody changed it just now, look again; otherwise see the operator above",
			"the operator has reported on generation %d of ClusterCSIDriver %s, and it has generation %d by now", seen, name, custom.Generation))
	}
	switch {
	case inactive:
		results = append(results, findings.Warn(conditionsStale, "see the operator above: nobody writes conditions any more", "the conditions of ClusterCSIDriver %s are out of date: no operator is active", name))
	case len(bad) == 0 && observed:
		results = append(results, findings.Pass(conditionsFine, "all %d conditions of ClusterCSIDriver %s are as they should be", len(custom.Status.Conditions), name))
	}
	return append(results, bad...)
}

// summaries are the conditions that sum up other conditions with the same suffix.
var summaries = []string{operatorv1.OperatorStatusTypeAvailable, operatorv1.OperatorStatusTypeProgressing, operatorv1.OperatorStatusTypeDegraded}

// kindsOfConditions gives the expected status of conditions, by the suffix of their type, and the verdict for another status.
// Conditions of other types should be true; if not, they name something that was left out.
var kindsOfConditions = []struct {
	suffix string
	want   operatorv1.ConditionStatus
	is     findings.Verdict
}{
	{operatorv1.OperatorStatusTypeDegraded, operatorv1.ConditionFalse, findings.Fault},
	{operatorv1.OperatorStatusTypeAvailable, operatorv1.ConditionTrue, findings.Fault},
	{operatorv1.OperatorStatusTypeProgressing, operatorv1.ConditionFalse, findings.Warning},
	{"ControllerDisabled", operatorv1.ConditionFalse, findings.Warning},
	{"", operatorv1.ConditionTrue, findings.Warning},
}

// judgeConditions returns the conditions that report a fault. It leaves out a summary if it returns a condition that the summary sums up.
func judgeConditions(conditions []operatorv1.OperatorCondition, describe string) []findings.Check {
	var bad []findings.Check
	told := map[string]bool{} // summaries that are left out
	for _, summary := range []bool{false, true} {
		for _, c := range conditions {
			if slices.Contains(summaries, c.Type) != summary || summary && told[c.Type] {
				continue
			}
			for _, kind := range kindsOfConditions {
				if !strings.HasSuffix(c.Type, kind.suffix) {
					continue
				}
				if c.Status != kind.want {
					told[kind.suffix] = true
					verdict := kind.is
					if c.Status == operatorv1.ConditionUnknown {
						verdict = findings.Warning
					}
					bad = append(bad, findings.Check{Code: conditionBad, Verdict: verdict, What: fmt.Sprintf("%s is %s: %s", c.Type, c.Status, explained(c.Reason, c.Message)), Do: helpFor(c.Reason, describe)})
				}
				break
			}
		}
	}
	return bad
}

// help gives advice by the reason of a condition. It lacks reasons for which the message of the condition gives advice.
var help = map[string]string{
	"WaitingForLock":               "end the operator or pod that the message names: see " + findings.Page("start/install.md#when-the-operator-waits"),
	"MissingImage":                 "set the variables in the message in spec.config.env of the Subscription",
	"UnsupportedState":             "set spec.managementState to Managed, Unmanaged or Removed",
	"RequestRefused":               "make the policy or webhook accept the object in the message: the operator tries again each half minute",
	"PodsRefused":                  "make the API server accept the pods: see the driver's namespace and pods below",
	"VolumesInUse":                 "end the pods that the message names: see " + findings.Page("operate/uninstall.md#what-a-removal-waits-for"),
	"OtherDriver":                  "move over from that driver, or remove this operator: see " + findings.Page("start/install.md#before-you-start"),
	"SeveralDrivers":               "delete the other operator's Subscription and ClusterServiceVersion, and then its finalizer",
	"OtherOperatorActive":          "delete that operator's Subscription and ClusterServiceVersion",
	"NamespaceUnproven":            "name the driver's namespace: see " + findings.Page("start/install.md#where-the-driver-is"),
	"SeveralNamespaces":            "name the driver's namespace: see " + findings.Page("start/install.md#where-the-driver-is"),
	"NamespaceMissing":             "create the namespace, or name another one",
	"NamespaceGone":                "name another namespace, or delete the ClusterCSIDriver",
	"NamespaceRecreated":           "name another namespace, or delete the ClusterCSIDriver",
	"CredentialsNotProvisionedYet": "oc -n openshift-cloud-credential-operator describe credentialsrequest",
	"RoleMissing":                  "set the variable that the message names in spec.config.env of the Subscription, or create the Secret: see " + findings.Page("start/install.md#credentials"),
	"CredentialsUnusable":          "give the Secret the keys that the message names",
	"LeftAsItIs":                   "nothing, if you created the StorageClass; otherwise delete it, and the operator creates it again",
	"ObjectsOfOtherVersion":        "install the later version of the operator again; or see " + findings.Page("operate/troubleshooting.md#what-is-left-out"),
}

// helpFor returns advice. A condition of several controllers joins the reasons of all that report trouble.
func helpFor(reasons, describe string) string {
	for reason := range strings.SplitSeq(reasons, "::") {
		if do, known := help[reason]; known {
			return do
		}
	}
	return describe
}
