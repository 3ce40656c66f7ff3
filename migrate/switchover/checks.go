package switchover

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-csi/berth/olm/prediction"
)

// The codes of checks that are not about what OLM does.
const (
	channelChanged  = "channel-changed"
	catalogUnread   = "catalog-unread"
	driverUnmanaged = "driver-unmanaged"
	driverUnknown   = "driver-unknown"
	driverUnplaced  = "driver-unplaced"
)

// checks are what every plan checks of what OLM will do, in this order, and what is said if it is fine.
var checks = []struct {
	codes []prediction.Code
	fine  string
	// target tells that the check is about what OLM will install, and is none if that is nothing.
	target bool
}{
	{[]prediction.Code{prediction.PendingInstallPlan, prediction.InstallPlanGone, prediction.Installing}, "no InstallPlan is pending", false},
	{[]prediction.Code{prediction.SourceMissing}, "there is such a CatalogSource", false},
	{[]prediction.Code{prediction.SourceUnreachable}, "OLM reaches all catalogs of the namespace", false},
	{[]prediction.Code{prediction.PackageAbsent}, "the catalog has the package", false},
	{[]prediction.Code{prediction.ChannelAbsent, prediction.ChannelBroken}, "the package has the channel", false},
	{[]prediction.Code{prediction.OperatorGroups, prediction.InstallMode}, "the OperatorGroup fits", false},
	{[]prediction.Code{prediction.SecondSubscription, prediction.ProvidedElsewhere}, "no other Subscription is in the way", false},
	{[]prediction.Code{prediction.OrphanedCSV}, "what is installed is the Subscription's", false},
	{[]prediction.Code{prediction.NoEdge, prediction.Unsatisfied, prediction.DependencyMissing}, "OLM finds a way to what it shall install", false},
	{[]prediction.Code{prediction.ManualApproval, prediction.ManualApprovalElsewhere}, "nobody else is asked for approval", false},
	{[]prediction.Code{prediction.Downgrade}, "the version is no earlier one", true},
	{[]prediction.Code{prediction.SameCSV}, "the version is another one", true},
	{[]prediction.Code{prediction.NotUpgradeable}, "the operator allows to be updated", true},
	{[]prediction.Code{prediction.OldKubernetes}, "the version of Kubernetes suits it", true},
	{[]prediction.Code{prediction.OpenShiftHeldBack}, "the version of OpenShift suits it", true},
	{[]prediction.Code{prediction.InvalidObjects, prediction.StoredVersionRemoved, prediction.OldDefinition, prediction.DefinitionsUnchecked}, "all objects of its APIs stay valid", true},
}

// tolerated are the reasons for which a switch is safe nevertheless: those that apply deals with itself, and what
// is only to be known.
var tolerated = []prediction.Code{
	prediction.ManualApproval, prediction.ManualApprovalElsewhere,
	prediction.SameCSV, prediction.OpenShiftHeldBack, prediction.DefinitionsUnchecked, prediction.EndsEarly, prediction.Deprecated,
}

// checksOf says what each check has come to.
func checksOf(p *Plan, own *prediction.Prediction) []Check {
	left := slices.Concat(own.Why, own.Blockers, own.Risks)
	if p.Way == Stay { // and OLM has nothing to wait for
		left = slices.Clone(own.Risks)
	}
	blind := own.Verdict == prediction.Refused || own.Next == nil && own.Verdict == prediction.Waits
	var done []Check
	for _, c := range checks {
		about := func(r prediction.Reason) bool { return slices.Contains(c.codes, r.Code) }
		before := len(done)
		for _, reason := range left {
			if about(reason) {
				done = append(done, checkOf(reason))
			}
		}
		left = slices.DeleteFunc(left, about)
		if len(done) == before && !blind && (p.Target != "" || !c.target) {
			done = append(done, Check{Code: string(c.codes[0]), Verdict: OK, What: c.fine})
		}
	}
	for _, reason := range left {
		done = append(done, checkOf(reason))
	}
	return done
}

// asFlags says with the flags of a switch what package plan says of the fields of a Subscription.
var asFlags = strings.NewReplacer(
	"set spec.source and spec.sourceNamespace of the Subscription to", "name with --to",
	"set spec.channel of the Subscription to", "name with --channel",
	"set spec.name, and spec.channel, of the Subscription to", "name with --new-package, and --channel,",
	"set spec.name of the Subscription to", "name with --new-package",
)

func checkOf(reason prediction.Reason) Check {
	c := Check{Code: string(reason.Code), Verdict: Refused, What: reason.What, Do: asFlags.Replace(reason.Do)}
	switch {
	case reason.Code == prediction.ManualApproval || reason.Code == prediction.ManualApprovalElsewhere:
		c.Verdict, c.Do = Warning, "nothing: apply approves the InstallPlan, if it is the one that was foretold"
	case slices.Contains(tolerated, reason.Code):
		c.Verdict = Warning
	}
	return c
}

// ownChecks are those that are not about what OLM does.
func (w *World) ownChecks(p *Plan, turnedChannel bool) []Check {
	var done []Check
	warn := func(code, do, format string, args ...any) {
		done = append(done, Check{code, Warning, fmt.Sprintf(format, args...), do})
	}
	if turnedChannel {
		warn(channelChanged, "name another one with --channel, if that is not the one you want",
			"package %s has no channel %q there; its default channel is %q", p.To.Package, p.From.Channel, p.To.Channel)
	}
	if len(w.unread) > 0 {
		warn(catalogUnread, "see that what other Subscriptions of the namespace get is what you want",
			"not all catalogs could be read from here: %s", strings.Join(w.unread, "; "))
	}
	if d := w.driver; d != nil && d.placed.Refusal != nil {
		verdict := Warning
		if p.createsDriver() { // it would stop there
			verdict = Refused
		}
		done = append(done, Check{driverUnplaced, verdict, fmt.Sprintf("in which namespace driver %s is cannot be told: %s", d.CSIName, d.placed.Refusal.Message),
			"do as that says"})
	}
	switch d := w.driver; {
	case d == nil:
		warn(driverUnknown, "find out what its own documentation says of the update", "no driver is known whose operator is package %s: only what OLM does has been checked", p.From.Package)
	case !d.custom && !p.createsDriver():
		warn(driverUnmanaged, "have it created by --create-driver, or create it by hand later",
			"there is no ClusterCSIDriver %s: the driver stays as it is, and nobody manages it", d.CSIName)
	}
	return done
}
