// Package plan foretells what OLM will do with Subscriptions, and says why, or why nothing: OLM itself
// stays silent there. What OLM chooses comes of OLM's own resolver, which runs in process; what is said
// about it comes of the catalog's upgrade graph.
package prediction

import (
	"context"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Verdict is what OLM does with a Subscription.
type Verdict string

// The verdicts.
const (
	// Installs: nothing is installed, and OLM installs Next.
	Installs Verdict = "installs"
	// Updates: OLM takes what is installed to Next.
	Updates Verdict = "updates"
	// Waits: OLM would do one of these, but waits for somebody. Holds says for what.
	Waits Verdict = "waits"
	// Latest: the head of the channel is installed.
	Latest Verdict = "latest"
	// Stranded: OLM does nothing although the channel has a later head, and says nothing of it.
	Stranded Verdict = "stranded"
	// Refused: OLM resolves nothing in the whole namespace, and tells all its Subscriptions so.
	Refused Verdict = "refused"
)

// Good tells whether OLM goes on, or is where it should be.
func (v Verdict) Good() bool { return v == Installs || v == Updates || v == Latest }

// Outcome is what OLM will do with a Subscription. The names of fields in JSON stay as they are.
type Prediction struct {
	// Namespace and Subscription are empty where there is no cluster.
	Namespace    string `json:"namespace,omitempty"`
	Subscription string `json:"subscription,omitempty"`
	Package      string `json:"package"`
	Channel      string `json:"channel"`
	// Installed is the ClusterServiceVersion that the Subscription has, if any.
	Installed string  `json:"installed,omitempty"`
	Verdict   Verdict `json:"verdict"`
	// Next is what OLM installs next.
	Next *Update `json:"next,omitempty"`
	// Dependencies are what OLM installs along.
	Dependencies []string `json:"dependencies,omitempty"`
	// Then are the updates that follow. They end at the head of the channel if Arrives.
	Then    []Update `json:"then,omitempty"`
	ReachesHead bool   `json:"arrives"`
	// Why are the reasons of a verdict that is not good, and Holds what OLM waits for.
	Why   []Reason `json:"why,omitempty"`
	Blockers []Reason `json:"holds,omitempty"`
	// Risks are what people should know beforehand, and Warnings what of each.
	Risks    []Reason `json:"risks,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Message is what OLM itself will say in the condition ResolutionFailed.
	Message string `json:"message,omitempty"`

	bundles []Bundle
}

// Bundle is one that OLM installs, and the catalog that it comes from.
type Bundle struct {
	From Source
	*fbc.Bundle
}

// Bundles are what OLM installs next for the Subscription: that of Next, and those of Dependencies. A plan that was
// read from JSON has none.
func (p *Prediction) Bundles() []Bundle { return p.bundles }

// Step is an update, or the first installation.
type Update struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Edge is what leads there from the version before: replaces, skips or skipRange, with a skipRange
	// Range.
	Edge  upgrade.Edge `json:"edge,omitempty"`
	Range string       `json:"skipRange,omitempty"`
}

// Reason is why OLM does not go on, or what is to be known, and what people can do about it.
type Reason struct {
	Code Code   `json:"code"`
	What string `json:"what"`
	Do   string `json:"do,omitempty"`
}

// Foretell says what OLM will do with each Subscription of a namespace that has a catalog in World, in the
// order of World. Of a cluster it reads the CRDs that would change, and their objects, and nothing if none
// would. It fails if that, or a bundle, cannot be read.
func (st *State) Predict(ctx context.Context) ([]*Prediction, error) {
	st = st.normalized()
	resolved, refusal := st.resolve()
	var all []*Prediction
	for _, s := range st.Subscriptions {
		f := st.subject(s)
		if f.catalog == nil && st.offers(sourceOf(s)) && !st.unreachableSource(sourceOf(s)) {
			continue // it is only here because OLM decides for all together
		}
		if refusal != nil {
			f.refused(refusal)
		} else if err := f.resolved(ctx, resolved); err != nil {
			return nil, err
		}
		all = append(all, f.Prediction)
	}
	return all, nil
}

// subject is a Subscription that is asked about, with what the catalog has for it. What it does not have
// is nil.
type subject struct {
	*Prediction
	state        *State
	subscription *v1alpha1.Subscription
	csv          *v1alpha1.ClusterServiceVersion
	catalog      *fbc.Catalog
	pkg          *fbc.Package
	channel      *fbc.Channel
	graph        *upgrade.Graph
}

func (st *State) subject(s *v1alpha1.Subscription) *subject {
	f := &subject{
		Prediction:      &Prediction{Package: s.Spec.Package, Channel: s.Spec.Channel},
		state:        st,
		subscription: s,
		csv:          st.csv(s.Status.InstalledCSV),
		catalog:      st.Catalogs[sourceOf(s)],
		graph:        &upgrade.Graph{},
	}
	if !st.hypothetical {
		f.Namespace, f.Subscription = s.Namespace, s.Name
	}
	if f.csv != nil {
		f.Installed = f.csv.Name
	}
	if f.catalog == nil {
		return f
	}
	if f.pkg = f.catalog.Find(s.Spec.Package); f.pkg == nil {
		return f
	}
	if f.Channel == "" { // then OLM takes the default one first
		f.Channel = f.pkg.DefaultChannel
	}
	if f.channel = f.pkg.FindChannel(f.Channel); f.channel != nil {
		f.graph = upgrade.Of(f.pkg, f.channel)
	}
	return f
}

// installed is the version that the Subscription has.
func (f *subject) installed() upgrade.Version {
	return upgrade.Version{Name: f.csv.Name, Number: &f.csv.Spec.Version.Version}
}

// refused says why OLM resolves nothing.
func (f *subject) refused(refusal error) {
	f.Verdict, f.Message = Refused, refusal.Error()
	f.Why = f.namespaceProblems()
	for _, other := range f.state.Subscriptions {
		if other == f.subscription {
			continue
		}
		for _, reason := range f.state.subject(other).subscriptionProblems() {
			reason.What = "for Subscription " + other.Name + ", too, OLM has to find an answer: " + reason.What
			f.Why = append(f.Why, reason)
		}
	}
	if len(f.Why) == 0 {
		reason := f.dependencyReason(f.graph.Chain[0])
		reason.What = stripBoilerplate(refusal)
		f.Why = []Reason{reason}
	}
	if frozen := pendingInstallPlan(f, nil); frozen != nil { // first of all
		f.Verdict, f.Message, f.Blockers = Waits, "", []Reason{*frozen}
	}
}

// resolved says what OLM does.
func (f *subject) resolved(ctx context.Context, r *resolution) error {
	chosen := f.graph.Find(r.chosen[f.subscription.Name])
	switch {
	case chosen != nil && f.csv == nil:
		f.Verdict, f.Next = Installs, newUpdate(upgrade.Update{Entry: chosen})
	case chosen != nil:
		f.Verdict, f.Next = Updates, newUpdate(upgrade.Update{Entry: chosen, Edge: chosen.Follows(f.installed())})
	case f.csv == nil:
		f.Verdict, f.Blockers = Waits, []Reason{{Code: Installing, What: "OLM is installing " + f.subscription.Status.CurrentCSV}}
	case len(f.graph.Heads) == 1 && f.graph.Heads[0].Name == f.csv.Name:
		f.Verdict, f.ReachesHead = Latest, true
	default:
		f.Verdict = Stranded
		f.Why = f.whyStranded()
	}
	if chosen != nil {
		f.bundles = append(f.bundles, Bundle{sourceOf(f.subscription), f.pkg.FindBundle(chosen.Name)})
		for _, dependency := range r.created {
			f.Dependencies = append(f.Dependencies, dependency.Spec.StartingCSV)
			from := sourceOf(dependency)
			if found := f.state.bundle(from, dependency.Spec.Package, dependency.Spec.StartingCSV); found != nil {
				f.bundles = append(f.bundles, Bundle{from, found})
			}
		}
		if err := f.predictLater(r); err != nil {
			return err
		}
	}
	if err := f.findBlockers(ctx, chosen); err != nil {
		return err
	}
	f.findRisks(chosen)
	for _, risk := range f.Risks {
		f.Warnings = append(f.Warnings, risk.What)
	}
	return nil
}

// follow says which updates come after the first, by having OLM decide again and again.
func (f *subject) predictLater(r *resolution) error {
	st, last := f.state, f.Next.Name
	for seen := map[string]bool{}; !seen[last]; {
		seen[last] = true
		var err error
		if st, err = st.installed(r); err != nil {
			return err
		}
		if r, err = st.resolve(); err != nil {
			return nil // it is refused then; warn says that this is not the end
		}
		chosen := f.graph.Find(r.chosen[f.subscription.Name])
		if chosen == nil {
			break
		}
		f.Then = append(f.Then, *newUpdate(upgrade.Update{Entry: chosen, Edge: chosen.Follows(f.graph.Find(last).Version())}))
		last = chosen.Name
	}
	f.ReachesHead = last == f.graph.Heads[0].Name
	return nil
}

func newUpdate(s upgrade.Update) *Update {
	step := &Update{Name: s.Entry.Name, Edge: s.Edge}
	if s.Entry.Number != nil {
		step.Version = s.Entry.Number.String()
	}
	if s.Edge == upgrade.SkipRange {
		step.Range = s.Entry.SkipRange
	}
	return step
}

// hold finds what keeps OLM from doing what it has chosen, if anything.
func (f *subject) findBlockers(ctx context.Context, chosen *upgrade.Entry) error {
	if chosen == nil {
		return nil
	}
	bundle := f.pkg.FindBundle(chosen.Name)
	details, err := bundle.Details()
	if err != nil {
		return err
	}
	for _, find := range blockers {
		if reason := find(f, details.CSV); reason != nil {
			f.Blockers = append(f.Blockers, *reason)
		}
	}
	if err := f.checkCRDs(ctx, details); err != nil {
		return err
	}
	f.checkOpenShift(bundle)
	if len(f.Blockers) > 0 {
		f.Verdict = Waits
	}
	return nil
}

// Good tells whether all outcomes are.
func Good(predictions []*Prediction) bool {
	return !slices.ContainsFunc(predictions, func(p *Prediction) bool { return !p.Verdict.Good() })
}
