package subscription

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/prediction"
)

// The codes of the checks that are not about OLM's actions.
const (
	channelChanged  = "channel-changed"  // the other catalog has a channel of the present name
	catalogUnread   = "catalog-unread"   // the catalogs of other Subscriptions could be read
	switched        = "switched"         // the Subscription uses the other catalog already
	driverUnmanaged = "driver-unmanaged" // there is a ClusterCSIDriver, so the operator manages the driver
	driverUnknown   = "driver-unknown"   // the package has the operator of a known driver
	driverPods      = "driver-pods"      // no change of the driver's pods affects mounts
	driverUnplaced  = "driver-unplaced"  // the operator knows the driver's namespace

	subscriptionDeleted = "subscription-deleted" // nobody has deleted the Subscription, which a finalizer may still keep
)

// checks are the checks of OLM's predicted actions, in this order.
var checks = []struct {
	codes []prediction.Code
	// passed is the text of a check without objections.
	passed string
	// target marks a check of the version that OLM will install. It is omitted if OLM installs nothing.
	target bool
}{
	{[]prediction.Code{prediction.PendingInstallPlan, prediction.InstallPlanGone, prediction.Installing}, "no InstallPlan is pending", false},
	{[]prediction.Code{prediction.SourceMissing}, "the CatalogSource exists", false},
	{[]prediction.Code{prediction.SourceUnreachable}, "OLM can reach all catalogs of the namespace", false},
	{[]prediction.Code{prediction.PackageAbsent}, "the catalog has the package", false},
	{[]prediction.Code{prediction.ChannelAbsent, prediction.ChannelBroken}, "the package has the channel", false},
	{[]prediction.Code{prediction.OperatorGroups, prediction.InstallMode}, "the OperatorGroup suits the operator", false},
	{[]prediction.Code{prediction.SecondSubscription, prediction.ProvidedElsewhere}, "no other Subscription conflicts", false},
	{[]prediction.Code{prediction.OrphanedCSV}, "the installed version belongs to the Subscription", false},
	{[]prediction.Code{prediction.NoEdge, prediction.Unsatisfied, prediction.DependencyMissing}, "OLM can resolve the package and its dependencies", false},
	{[]prediction.Code{prediction.ManualApproval, prediction.ManualApprovalElsewhere}, "no other approval is needed", false},
	{[]prediction.Code{prediction.Downgrade}, "the version is not an earlier one", true},
	{[]prediction.Code{prediction.SameCSV}, "the version is a different one", true},
	{[]prediction.Code{prediction.NotUpgradeable}, "the operator allows updates", true},
	{[]prediction.Code{prediction.OldKubernetes}, "the version of Kubernetes is supported", true},
	{[]prediction.Code{prediction.OpenShiftHeldBack}, "the version of OpenShift is supported", true},
	{[]prediction.Code{prediction.InvalidObjects, prediction.UnreadableObjects, prediction.StoredVersionRemoved, prediction.OldDefinition, prediction.DefinitionsUnchecked}, "all objects of its APIs stay valid", true},
}

// tolerated are the reasons that do not make a switch unsafe: apply deals with some of them itself, and others are only
// for the administrator's information.
var tolerated = []prediction.Code{
	prediction.ManualApproval, prediction.ManualApprovalElsewhere,
	prediction.SameCSV, prediction.OpenShiftHeldBack, prediction.DefinitionsUnchecked, prediction.EndsEarly, prediction.Deprecated,
}

// checkPrediction evaluates the checks of OLM's predicted actions.
func checkPrediction(p *Plan, own *prediction.Prediction) migrate.Checks {
	left := slices.Concat(own.Why, own.Blockers, own.Risks)
	if p.Strategy == Keep { // OLM has nothing to wait for
		left = slices.Clone(own.Risks)
	}
	unknown := own.Reaction == prediction.Refused || own.Next == nil && own.Reaction == prediction.Waits
	var results migrate.Checks
	for _, c := range checks {
		about := func(r prediction.Reason) bool { return slices.Contains(c.codes, r.Code) }
		before := len(results)
		for _, reason := range left {
			if about(reason) {
				results = append(results, checkOf(reason))
			}
		}
		left = slices.DeleteFunc(left, about)
		if len(results) == before && !unknown && (p.Target != "" || !c.target) {
			results = append(results, findings.Check{Code: string(c.codes[0]), Verdict: findings.OK, What: c.passed})
		}
	}
	for _, reason := range left {
		results = append(results, checkOf(reason))
	}
	return results
}

// checkSwitched returns the check of a Subscription that is switched already.
func checkSwitched(p *Plan) migrate.Checks {
	return migrate.Checks{{Code: switched, Verdict: findings.OK,
		What: fmt.Sprintf("the Subscription is for %s already, which has %s", p.To, p.Installed)}}
}

// asFlags replaces the fields of a Subscription, which package prediction names, by the flags of the command.
var asFlags = strings.NewReplacer(
	"set spec.source and spec.sourceNamespace of the Subscription to", "set --to to",
	"set spec.channel of the Subscription to", "set --channel to",
	"set spec.name, and spec.channel, of the Subscription to", "set --new-package and --channel to",
	"set spec.name of the Subscription to", "set --new-package to",
)

func checkOf(reason prediction.Reason) findings.Check {
	c := findings.Check{Code: string(reason.Code), Verdict: findings.Refused, What: reason.What, Do: asFlags.Replace(reason.Do)}
	switch {
	case reason.Code == prediction.ManualApproval || reason.Code == prediction.ManualApprovalElsewhere:
		c.Verdict, c.Do = findings.Warning, "nothing: apply approves the InstallPlan if it is the predicted one"
	case slices.Contains(tolerated, reason.Code):
		c.Verdict = findings.Warning
	}
	return c
}

// checkRest evaluates the checks that are not about OLM.
func (in *input) checkRest(p *Plan, channelDefaulted bool) migrate.Checks {
	var results migrate.Checks
	warn := func(code, do, format string, args ...any) {
		results = append(results, findings.Check{Code: code, Verdict: findings.Warning, What: fmt.Sprintf(format, args...), Do: do})
	}
	if s := in.subscription; s.DeletionTimestamp != nil {
		results = migrate.Refuse(subscriptionDeleted, "find out who has deleted it; wait until it is gone, create it again, and plan again",
			"Subscription %s/%s is being deleted, and has the finalizers %s", s.Namespace, s.Name, strings.Join(s.Finalizers, ", "))
	}
	if channelDefaulted {
		warn(channelChanged, "choose a channel with --channel if you want another one",
			"package %s has no channel %q there, so its default channel %q is used", p.To.Package, p.From.Channel, p.To.Channel)
	}
	if len(in.unread) > 0 {
		warn(catalogUnread, "check what other Subscriptions of the namespace will get",
			"some catalogs could not be read: %s", strings.Join(in.unread, "; "))
	}
	if d := in.driver; d != nil && d.placed.Refusal != nil {
		verdict := findings.Warning
		if p.createsDriver() { // the operator would refuse to install it
			verdict = findings.Refused
		}
		results = append(results, findings.Check{Code: driverUnplaced, Verdict: verdict,
			What: fmt.Sprintf("the operator will not touch driver %s: %s", d.CSIName, d.placed.Refusal.Message), Do: "follow that message"})
	}
	if d := in.driver; d != nil && len(d.podChanges) > 0 && (d.managed || p.createsDriver()) {
		warn(driverPods, "find out whether mounts depend on that: see "+findings.Page("operate/troubleshooting.md#names-that-only-the-clusters-dns-resolves"),
			"the pods of driver %s change: %s", d.CSIName, strings.Join(d.podChanges, "; "))
	}
	switch d := in.driver; {
	case d == nil:
		warn(driverUnknown, "read its documentation about the update", "no known driver has its operator in package %s: only what OLM does was checked", p.From.Package)
	case !d.managed && !p.createsDriver():
		do := "create it with --create-driver, or yourself later"
		if !d.monitored {
			do += "; to get an alert as long as it is missing, have the cluster's monitoring read the metrics of all operators in the namespace: " + escape.Command("oc label namespace %s %s", in.Namespace, drivers.MonitoringLabel+"=true")
		}
		warn(driverUnmanaged, do, "there is no ClusterCSIDriver %s: the driver stays as it is, and no operator manages it", d.CSIName)
	}
	return results
}
