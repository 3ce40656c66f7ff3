package prediction

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/internal/openshift"
)

// findSupport says how the versions of a prediction are supported, by the lifecycle of their package. The package may be nil.
// openShift is nil unless a cluster runs OpenShift.
func (p *Prediction) findSupport(pkg *fbc.Package, today lifecycle.Date, openShift *semver.Version) error {
	if pkg == nil {
		return nil
	}
	all, err := pkg.Lifecycle()
	if err != nil || all == nil {
		return err
	}
	today = cmp.Or(today, lifecycle.DateOf(time.Now()))
	of := func(name string) *lifecycle.Version {
		if b := pkg.FindBundle(name); b != nil {
			return all.Find(b.Number())
		}
		return nil
	}
	p.Support = of(p.Installed).At(today)
	if p.Next != nil {
		p.Next.Support = of(p.Next.Name).At(today)
		p.warnAboutOpenShift(of(p.Next.Name), openShift)
	}
	for i, u := range p.Then {
		p.Then[i].Support = of(u.Name).At(today)
	}
	if name, support := p.last(); support != nil && support.State == lifecycle.Ended {
		p.risk(SupportEnded, "choose a channel or a catalog with a version that is supported", "%s is not supported: the support of version %s %s", name, support.Version, support)
	}
	return nil
}

// warnAboutOpenShift warns if a version does not run on the cluster's version of OpenShift.
func (p *Prediction) warnAboutOpenShift(v *lifecycle.Version, cluster *semver.Version) {
	if v == nil || cluster == nil {
		return
	}
	runsOn := v.On(lifecycle.OpenShift)
	if len(runsOn) == 0 || slices.ContainsFunc(runsOn, func(text string) bool {
		on, err := openshift.Parse(text)
		return err == nil && on.Normal() == openshift.Version{Major: int(cluster.Major), Minor: int(cluster.Minor)}.Normal()
	}) {
		return
	}
	p.risk(OpenShiftUnsupported, "update the cluster, or choose a version that supports it", "by its lifecycle, version %s runs on OpenShift %s, and the cluster runs %s", v.Name, strings.Join(runsOn, ", "), cluster)
}

// last returns the version at which updates end, or the installed one if there is no update, with its support if that is known.
func (p *Prediction) last() (string, *lifecycle.Support) {
	switch {
	case len(p.Then) > 0:
		u := p.Then[len(p.Then)-1]
		return u.Name, u.Support
	case p.Next != nil:
		return p.Next.Name, p.Next.Support
	}
	return p.Installed, p.Support
}
