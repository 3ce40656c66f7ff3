// Package olmv1 finds the bundles and updates in catalogs that OLM v1 refuses.
package olmv1

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/olm/upgrade"
)

// The rules for catalogs that OLM v1 installs from. Refused is also a rule for single bundles.
var (
	Refused = findings.Rule{ID: "olm-v1-bundle", Severity: findings.Error,
		What: "OLM v1 installs every bundle.",
		Why:  "It chooses a bundle first, and then refuses it: clusters stay at the version that they have."}
	v1Update = findings.Rule{ID: "olm-v1-update", Severity: findings.Error,
		What: "No update changes a CustomResourceDefinition in a way that OLM v1 refuses.",
		Why:  "OLM v1 compares the new definition with the one in the cluster, and refuses what could break objects or clients."}
	v1Unread = findings.Rule{ID: "olm-v1-unread", Severity: findings.Warning,
		What: "The manifests of all bundles are known.",
		Why:  "What a catalog only describes was not checked; with --images it is."}
	v1Against = findings.Rule{ID: "olm-v1-against", Severity: findings.Error,
		What: "OLM v1 does no less for what clusters have installed than with the earlier catalog.",
		Why:  "These clusters get no updates any more."}
)

// Rules are the rules that a Checker applies.
var Rules = []findings.Rule{Refused, v1Update, v1Unread, v1Against}

// Checker checks catalogs.
type Checker struct {
	Gates featuregates.Set
	// Read returns the manifests of a bundle as OLM reads them, or nil if they are not known.
	Read func(context.Context, *fbc.Bundle) (*refusal.Bundle, error)
}

// Refusals holds the bundles and updates of a package that OLM v1 refuses.
type Refusals struct {
	Bundles, Updates []Refusal
	// Unread is the number of bundles whose manifests are not known.
	Unread int
}

// Refusal says why OLM v1 refuses a bundle, or an update to it from another one.
type Refusal struct {
	refusal.Refusal
	Bundle *fbc.Bundle
	From   *fbc.Bundle // nil if it refuses the bundle itself
}

// Check finds the bundles that OLM v1 refuses, and the updates that its safety checks for CustomResourceDefinitions refuse.
func (v *Checker) Check(ctx context.Context, c *fbc.Catalog) (found []*findings.Finding, err error) {
	for _, p := range c.Packages {
		refused, err := v.Refused(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, r := range refused.Bundles {
			found = append(found, fbc.Fault(Refused, r.Bundle.Span, nil, "%s", Sentence(r.Refusal)).In(p.Name))
		}
		if refused.Unread > 0 {
			found = append(found, fbc.Fault(v1Unread, p.Span, nil, "the catalog lacks the manifests of %d bundles of package %s; only what it says of them was checked", refused.Unread, p.Name).In(p.Name))
		}
		for _, r := range refused.Updates {
			found = append(found, fbc.Fault(v1Update, r.Bundle.Span, nil, "update from %s to %s: %s", r.From.Name, r.Bundle.Name, Sentence(r.Refusal)).In(p.Name))
		}
	}
	return found, nil
}

// Refused returns the bundles and updates of a package that OLM v1 refuses.
func (v *Checker) Refused(ctx context.Context, p *fbc.Package) (*Refusals, error) {
	all := &Refusals{}
	for _, b := range p.Bundles {
		read, err := v.Read(ctx, b)
		if err != nil {
			return nil, err
		}
		refused := refusal.Listed(b)
		if read != nil {
			request := &refusal.Request{Gates: v.Gates}
			refused = slices.Concat(refused, refusal.Of(read, request), refusal.Removed(read, request))
		}
		if read == nil || read.Described {
			all.Unread++
		}
		for _, r := range refused {
			all.Bundles = append(all.Bundles, Refusal{r, b, nil})
		}
	}
	err := v.checkUpdates(ctx, p, all)
	return all, err
}

// Sentence says why OLM v1 refuses a bundle and what to do. It adds OLM's message if that differs.
func Sentence(r refusal.Refusal) string {
	text := r.What + "; " + r.Do
	if r.Text != "" && r.Text != r.What {
		text += ". OLM v1 says: " + r.Text
	}
	return text
}

// checkUpdates checks the updates of a package: along edges by name, and to heads whose skipRange contains a version. It returns
// refusal.ErrMany if there are too many.
func (v *Checker) checkUpdates(ctx context.Context, p *fbc.Package, all *Refusals) error {
	left := refusal.NewAllowance(p.Bundles)
	type pair struct{ from, to *fbc.Bundle }
	checked := map[pair]bool{}
	for _, channel := range p.Channels {
		graph := upgrade.Of(p, channel)
		isHead := map[*upgrade.Entry]bool{}
		for _, head := range graph.Heads {
			isHead[head] = true
		}
		for _, entry := range graph.Entries {
			to := p.FindBundle(entry.Name)
			if to == nil {
				continue
			}
			before, err := updatesTo(p, entry, isHead[entry], left)
			if err != nil {
				return err
			}
			for _, from := range before {
				if from == to || checked[pair{from, to}] {
					continue
				}
				checked[pair{from, to}] = true
				if err := left.Update(from, to); err != nil {
					return err
				}
				refused, err := v.between(ctx, from, to)
				if err != nil {
					return err
				}
				for _, r := range refused {
					all.Updates = append(all.Updates, Refusal{r, to, from})
				}
			}
		}
	}
	return nil
}

// updatesTo returns the bundles from which an edge leads to an entry. A skipRange counts for heads only.
func updatesTo(p *fbc.Package, entry *upgrade.Entry, head bool, left *refusal.Allowance) (all []*fbc.Bundle, err error) {
	if head && entry.SkipRange != "" {
		err := left.Ranges(len(p.Bundles))
		return slices.DeleteFunc(slices.Clone(p.Bundles), func(b *fbc.Bundle) bool {
			return entry.Follows(upgrade.Version{Name: b.Name, Number: b.Number()}) == ""
		}), err
	}
	for _, name := range append([]string{entry.Replaces}, entry.Skips...) {
		if b := p.FindBundle(name); b != nil {
			all = append(all, b)
		}
	}
	return all, nil
}

func (v *Checker) between(ctx context.Context, from, to *fbc.Bundle) ([]refusal.Refusal, error) {
	before, err := v.Read(ctx, from)
	if err != nil {
		return nil, err
	}
	after, err := v.Read(ctx, to)
	if err != nil || before == nil || after == nil {
		return nil, err
	}
	return refusal.Between(before, after, &refusal.Request{Gates: v.Gates})
}

// Lost is an installed version for which OLM v1 does less with a catalog than with an earlier one.
type Lost struct {
	Package string `json:"package"`
	// Bundle is the name of the installed bundle.
	Bundle string `json:"bundle"`
	// Before and Now are predicates that say what OLM v1 does.
	Before string `json:"before"`
	Now    string `json:"now"`
}

// LostAgainst returns the bundles of the earlier catalog, before, for which OLM v1 does less with the catalog now. It looks at the named
// packages, or at all if none is named.
func (v *Checker) LostAgainst(ctx context.Context, now, before *fbc.Catalog, only ...string) (all []Lost, err error) {
	for _, was := range before.Packages {
		if len(only) > 0 && !slices.Contains(only, was.Name) {
			continue
		}
		lost, err := v.lostIn(ctx, now, before, was)
		if err != nil {
			return nil, fmt.Errorf("package %s: what OLM v1 does with it cannot be compared: %w", was.Name, err)
		}
		all = append(all, lost...)
	}
	return all, nil
}

// lostIn returns the bundles of one package of the earlier catalog for which OLM v1 does less with the catalog now.
func (v *Checker) lostIn(ctx context.Context, now, before *fbc.Catalog, was *fbc.Package) (all []Lost, err error) {
	bundles := was.Bundles
	if is := now.Find(was.Name); is != nil {
		bundles = slices.Concat(bundles, is.Bundles)
	}
	shared := prediction.Shared{Left: refusal.NewAllowance(bundles)}
	for _, b := range was.Bundles {
		if b.Number() == nil {
			continue
		}
		e := &prediction.Extension{Request: refusal.Request{Gates: v.Gates}, Package: was.Name, Installed: upgrade.Version{Name: b.Name, Number: b.Number()}, Was: b, Content: v.Read}
		earlier, err := e.PredictNext(ctx, before, &shared)
		if err != nil {
			return nil, err
		}
		later, err := e.PredictNext(ctx, now, &shared)
		if err != nil {
			return nil, err
		}
		if earlier.Reaction.Good() && !later.Reaction.Good() {
			all = append(all, Lost{was.Name, b.Name, earlier.Sentence(), later.Sentence() + ": " + later.Why[0].What})
		}
	}
	return all, nil
}

// Against finds the versions for which OLM v1 does less than with an earlier catalog.
func (v *Checker) Against(ctx context.Context, now, before *fbc.Catalog) (found []*findings.Finding, err error) {
	for _, was := range before.Packages {
		report := func(rule findings.Rule, format string, args ...any) {
			f := rule.Finding(now.Dir, format, args...)
			if p := now.Find(was.Name); p != nil {
				f = fbc.Fault(rule, p.Span, nil, "%s", f.Message)
			}
			found = append(found, f.In(was.Name))
		}
		lost, err := v.lostIn(ctx, now, before, was)
		switch {
		case errors.Is(err, refusal.ErrMany):
			report(v1Unread, "package %s was not compared with the earlier catalog: %v", was.Name, err)
		case err != nil:
			return nil, err
		}
		for _, l := range lost {
			report(v1Against, "on clusters with %s, OLM v1 %s; before, it %s", l.Bundle, l.Now, l.Before)
		}
	}
	return found, nil
}
