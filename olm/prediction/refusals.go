package prediction

import (
	"context"
	"slices"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/refusal"
)

// check predicts whether OLM installs its chosen bundle. It returns the manifests of the bundle, or nil if they are not known.
func (e *Extension) check(ctx context.Context, p *Prediction, sel *selection, chosen *candidate, shared *Shared) (*refusal.Bundle, error) {
	refused := refusal.Listed(chosen.Bundle)
	bundle, err := e.read(ctx, chosen.Bundle)
	if err != nil {
		return nil, err
	}
	if bundle == nil {
		p.refuseFor(&refusal.Bundle{Name: chosen.Name, Version: chosen.text(e)}, refused)
		if chosen.is(sel.installed()) {
			return nil, nil
		}
		p.risk(BundleUnread, unread, "the catalog does not have the manifests of %s: whether OLM v1 refuses them was not checked", chosen.Name)
		return nil, nil
	}
	bundle.Version = chosen.text(e)
	if bundle.Described && !chosen.is(sel.installed()) {
		p.risk(BundleUnread, unread, "the catalog only describes %s: its install modes and API services were checked, but not its webhooks, its CRDs and its other objects", chosen.Name)
	}
	installed, err := e.readInstalled(ctx, sel)
	if err != nil {
		return nil, err
	}
	refused = append(refused, shared.refusals(bundle, &e.Request)...)
	if e.Cluster != nil {
		in, err := refusal.In(ctx, e.Cluster, bundle, installed, &e.Request)
		if err != nil {
			return nil, err
		}
		refused = append(refused, in...)
	} else {
		if err := shared.spendUpdate(sel.pkg.FindBundle(e.Installed.Name), chosen.Bundle); err != nil {
			return nil, err
		}
		between, err := refusal.Between(installed, bundle, &e.Request)
		if err != nil {
			return nil, err
		}
		refused = slices.Concat(refused, refusal.Removed(bundle, &e.Request), between)
		e.warnAboutAPIs(p, bundle)
	}
	p.refuseFor(bundle, refused)
	return bundle, nil
}

// refuseFor says why OLM refuses a bundle. OLM reports only the first step that fails.
func (p *Prediction) refuseFor(b *refusal.Bundle, refused []refusal.Refusal) {
	for _, r := range refused {
		p.refuse(Code(r.Code), r.Do, "%s", r.What)
	}
	if p.Message == "" && len(refused) > 0 {
		p.Message, p.MessageGoesOn, p.Reason = refusal.Message(b, refused), refusal.First(refused).Cut, refusal.Reason(refused)
	}
}

const unread = "repeat the command with --images, which pulls bundles whose manifests the catalog lacks"

// read returns the manifests of a bundle as OLM reads them, or nil if they are not known.
func (e *Extension) read(ctx context.Context, b *fbc.Bundle) (*refusal.Bundle, error) {
	if e.Content != nil {
		return e.Content(ctx, b)
	}
	return refusal.FromCatalog(b)
}

// readInstalled returns the manifests of the installed bundle, or nil if there is none, or if they are not known.
func (e *Extension) readInstalled(ctx context.Context, sel *selection) (*refusal.Bundle, error) {
	b := sel.pkg.FindBundle(e.Installed.Name)
	if b == nil {
		b = e.Was
	}
	if b == nil {
		return nil, nil
	}
	return e.read(ctx, b)
}

// text returns the version of a bundle in OLM's messages. It includes the release, unless the feature gate for releases is on.
func (c *candidate) text(e *Extension) string {
	if e.Gates[featuregates.BundleRelease] && c.release != nil {
		return c.release.Version.String()
	}
	if number := c.Number(); number != nil {
		return number.String()
	}
	return ""
}

// warnAboutAPIs warns about an API that the bundle needs, and that not every cluster serves.
func (e *Extension) warnAboutAPIs(p *Prediction, b *refusal.Bundle) {
	if !b.Described && len(b.CSV.Spec.WebhookDefinitions) > 0 && e.Gates[featuregates.CertManager] {
		p.risk(APINeeded, "install cert-manager first", "%s has webhooks, and OLM v1 has cert-manager make their certificates: it refuses the bundle on clusters without that", b.Name)
	}
}

// checkLater returns the updates after the first one, without the first update that OLM refuses and all after that.
func (e *Extension) checkLater(ctx context.Context, p *Prediction, sel *selection, before *refusal.Bundle, then []Update, reaches bool) ([]Update, bool, error) {
	for i, update := range then {
		next, err := e.read(ctx, sel.pkg.FindBundle(update.Name))
		if err != nil {
			return nil, false, err
		}
		if before == nil || next == nil {
			before = next
			continue
		}
		refused := append(refusal.Of(next, &e.Request), refusal.Removed(next, &e.Request)...)
		between, err := refusal.Between(before, next, &e.Request)
		if err != nil {
			return nil, false, err
		}
		if refused = append(refused, between...); len(refused) > 0 {
			p.risk(EndsEarly, refused[0].Do, "OLM v1 refuses %s then: %s", update.Name, refused[0].What)
			return then[:i], false, nil
		}
		before = next
	}
	return then, reaches, nil
}
