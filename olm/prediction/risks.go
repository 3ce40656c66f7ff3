package prediction

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/openshift"
	"github.com/berth-csi/berth/olm/upgrade"
)

// findRisks finds risks that people should know before OLM proceeds.
func (f *subject) findRisks(chosen *upgrade.Entry) {
	if chosen != nil && f.csv != nil && chosen.Number != nil && fbc.CompareVersions(*chosen.Number, f.csv.Spec.Version.Version) < 0 {
		f.risk(Downgrade, "choose a channel or a catalog with a later head, unless the downgrade is intended", "%s is an earlier version than %s: OLM will downgrade", chosen.Name, f.csv.Name)
	}
	if slow := slices.ContainsFunc(f.Risks, func(r Reason) bool { return r.Code == ResolverSlow }); chosen != nil && !f.ReachesHead && !slow {
		f.risk(EndsEarly, "", "updates end before the head of the channel, %s", f.graph.Heads[0].Name)
	}
	for _, other := range f.state.overlapping() {
		for _, s := range other.Subscriptions {
			if s.Spec.Package == f.Package {
				f.risk(SecondSubscriptionElsewhere, "delete that Subscription, and its ClusterServiceVersion, or this one",
					"Subscription %s/%s is for package %q, too, and its OperatorGroup overlaps with this one: only one of the two operators can run", s.Namespace, s.Name, f.Package)
			}
		}
	}
	if before, changed := f.state.previousSources[f.subscription.Name]; changed && chosen == nil && before != sourceOf(f.subscription) && f.csv != nil && f.graph.Find(f.csv.Name) != nil {
		f.risk(SameCSV, "nothing, if both catalogs have the same content; otherwise wait until the new one has a later version",
			"the new catalog has %s, too: OLM takes that bundle for the installed one, and keeps the content that it installed from CatalogSource %q", f.csv.Name, before.Name)
	}
	for _, e := range f.graph.Entries {
		if e.SkipRange == "" {
			continue
		}
		var unusual fbc.UnusualRange
		switch _, err := fbc.ParseRange(e.SkipRange); {
		case err == nil:
		case errors.As(err, &unusual):
			f.risk(RangeIgnored, "have the catalog corrected", "the skipRange of %s is not considered here: %v", e.Name, err)
		default:
			f.risk(RangeIgnored, "have the catalog corrected", "%s has the skipRange %q, which is no range of versions: OLM ignores it", e.Name, e.SkipRange)
		}
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

// warnAboutRemovedAPIs says which updates remove versions of APIs. checkedNext says that the first update was already checked
// against the objects stored in a cluster.
func (p *Prediction) warnAboutRemovedAPIs(pkg *fbc.Package, checkedNext bool) {
	if pkg == nil || p.Next == nil {
		return
	}
	from := pkg.FindBundle(p.Installed)
	for i, u := range append([]Update{*p.Next}, p.Then...) {
		to := pkg.FindBundle(u.Name)
		for _, api := range fbc.RemovedAPIs(from, to) {
			if i > 0 || !checkedNext {
				p.risk(VersionRemoved, fmt.Sprintf("look for %s in status.storedVersions of the CustomResourceDefinition; if it is there, rewrite all objects in a version that remains, and remove it from there first", api.Version),
					"the update from %s to %s removes version %s of %s (%s): OLM refuses it on clusters that have stored objects in that version", from.Name, to.Name, api.Version, api.Kind, api.Group)
			}
		}
		from = to
	}
}

// maxOpenShift is the bundle property for the last minor version of OpenShift that an operator supports.
const maxOpenShift = "olm.maxOpenShiftVersion"

// checkOpenShift warns of an operator that does not support the next minor version of OpenShift: OLM installs it, and then blocks updates
// of the cluster to that version.
func (f *subject) checkOpenShift(b *fbc.Bundle) {
	for _, p := range b.Properties {
		if p.Type != maxOpenShift || f.state.OpenShift == nil {
			continue
		}
		stated := strings.Trim(string(p.Value), `"`)
		max, err := semver.ParseTolerant(stated)
		if err == nil && minor(max).GTE(next(minor(*f.state.OpenShift))) {
			continue
		}
		f.risk(OpenShiftHeldBack, fmt.Sprintf("proceed, and update %s again before you update the cluster; or wait for a version that supports the next OpenShift", f.Package),
			"%s supports OpenShift up to %s, and the cluster runs %s: OLM installs it, and then sets Upgradeable to False, "+
				"which blocks updates to the next minor version", b.Name, stated, f.state.OpenShift)
	}
}

// minor returns the minor version that a version belongs to, as OLM compares it.
func minor(v semver.Version) semver.Version {
	normal := openshift.Version{Major: int(v.Major), Minor: int(v.Minor)}.Normal()
	return semver.Version{Major: uint64(normal.Major), Minor: uint64(normal.Minor)}
}

func next(v semver.Version) semver.Version {
	return semver.Version{Major: v.Major, Minor: v.Minor + 1}
}

// risk adds a risk, with advice.
func (p *Prediction) risk(code Code, do, format string, args ...any) {
	p.Risks = append(p.Risks, Reason{code, fmt.Sprintf(format, args...), do})
}

func nameOf(e *upgrade.Entry) string {
	if e == nil {
		return ""
	}
	return e.Name
}
