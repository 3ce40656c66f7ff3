package prediction

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/olm/upgrade"
)

// warn says what people should know beforehand.
func (f *subject) findRisks(chosen *upgrade.Entry) {
	if chosen != nil && f.csv != nil && chosen.Number != nil && chosen.Number.LT(f.csv.Spec.Version.Version) {
		f.risk(Downgrade, "choose a channel or a catalog whose head is not earlier, unless it is meant", "%s is an earlier version than %s: this is a downgrade, and OLM makes it", chosen.Name, f.csv.Name)
	}
	if chosen != nil && !f.ReachesHead {
		f.risk(EndsEarly, "", "updates end before the head of the channel, %s", f.graph.Heads[0].Name)
	}
	for _, other := range f.state.overlapping() {
		for _, s := range other.Subscriptions {
			if s.Spec.Package == f.Package {
				f.risk(SecondSubscriptionElsewhere, "delete that Subscription, and its ClusterServiceVersion, or this one",
					"Subscription %s/%s is for package %q, too, and serves a namespace that this one serves: only one of the two operators can run", s.Namespace, s.Name, f.Package)
			}
		}
	}
	if before, turned := f.state.previousSources[f.subscription.Name]; turned && chosen == nil && before != sourceOf(f.subscription) && f.csv != nil && f.graph.Find(f.csv.Name) != nil {
		f.risk(SameCSV, "nothing, if both catalogs have the same content; otherwise wait until the new one has a later version",
			"the new catalog has %s, too: OLM takes it for what is installed, and keeps what came from CatalogSource %s", f.csv.Name, before.Name)
	}
	for _, deprecated := range []struct{ schema, name, title string }{
		{declcfg.SchemaPackage, "", "package " + f.Package}, {declcfg.SchemaChannel, f.Channel, "channel " + f.Channel},
		{declcfg.SchemaBundle, f.Installed, f.Installed}, {declcfg.SchemaBundle, nameOf(chosen), nameOf(chosen)},
	} {
		if message := f.pkg.Deprecation(deprecated.schema, deprecated.name); message != "" {
			f.risk(Deprecated, "", "%s is deprecated: %s", deprecated.title, message)
		}
	}
}

// maxOpenShift is the property of the last minor version of OpenShift that an operator is good for.
const maxOpenShift = "olm.maxOpenShiftVersion"

// checkOpenShift: OLM installs an operator that is not good for the next minor version of OpenShift, and from
// then on keeps the cluster from updates to that.
func (f *subject) checkOpenShift(b *fbc.Bundle) {
	for _, p := range b.Properties {
		if p.Type != maxOpenShift || f.state.OpenShift == nil {
			continue
		}
		stated := strings.Trim(string(p.Value), `"`)
		max, err := semver.ParseTolerant(stated)
		if err == nil && release(max).GTE(following(release(*f.state.OpenShift))) {
			continue
		}
		f.risk(OpenShiftHeldBack, fmt.Sprintf("go on, and update %s again before the cluster; or wait for a version that is good for the next OpenShift", f.Package),
			"%s is good for OpenShift up to %s, and the cluster has %s: OLM installs it, and then sets Upgradeable to False, "+
				"which keeps the cluster from the next minor version", b.Name, stated, f.state.OpenShift)
	}
}

// release is the minor version that a version belongs to. 4.23 and 5.0 are one.
func release(v semver.Version) semver.Version {
	if v.Major == 4 && v.Minor == 23 {
		return semver.Version{Major: 5}
	}
	return semver.Version{Major: v.Major, Minor: v.Minor}
}

func following(v semver.Version) semver.Version {
	return semver.Version{Major: v.Major, Minor: v.Minor + 1}
}

// risk notes something that people should know, and what they can do about it.
func (f *subject) risk(code Code, do, format string, args ...any) {
	f.Risks = append(f.Risks, Reason{code, fmt.Sprintf(format, args...), do})
}

func nameOf(e *upgrade.Entry) string {
	if e == nil {
		return ""
	}
	return e.Name
}
