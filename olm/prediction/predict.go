// Package prediction predicts what OLM will do with Subscriptions, and OLM v1 with ClusterExtensions, and explains why. It also explains
// why OLM does nothing, where OLM itself gives no reason. For Subscriptions, OLM's own resolver, which runs in this process, makes the
// choice (subscription_resolver.go). For ClusterExtensions, extension_choice.go chooses like operator-controller, whose resolver cannot be
// imported. The explanation comes from the catalog's upgrade graph and from the state of the cluster.
//
// Observe reads a State for each namespace, Predict runs the resolver on it, and Write shows the Predictions.
package prediction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Reaction says what OLM does with a Subscription. In JSON, its name is verdict.
type Reaction string

// The reactions.
const (
	// Installs: nothing is installed, and OLM installs Next.
	Installs Reaction = "installs"
	// Updates: OLM updates the installed version to Next.
	Updates Reaction = "updates"
	// Waits: OLM has chosen Next, but cannot install it. Blockers says why.
	Waits Reaction = "waits"
	// Latest: the head of the channel is installed.
	Latest Reaction = "latest"
	// Stranded: OLM silently does nothing although the channel has a later head.
	Stranded Reaction = "stranded"
	// Refused: OLM resolves nothing in the whole namespace, and sets ResolutionFailed on all its Subscriptions. For a ClusterExtension: OLM v1
	// installs nothing.
	Refused Reaction = "refused"
)

// Good reports whether OLM proceeds, or the head of the channel is installed.
func (v Reaction) Good() bool { return v == Installs || v == Updates || v == Latest }

// Prediction predicts what OLM will do with a Subscription, or OLM v1 with a ClusterExtension. Its JSON field names are an API.
type Prediction struct {
	// OLM is "v1" for a ClusterExtension, and empty for a Subscription.
	OLM string `json:"olm,omitempty"`
	// Namespace, Subscription and ClusterExtension are empty when no cluster was read.
	Namespace        string `json:"namespace,omitempty"`
	Subscription     string `json:"subscription,omitempty"`
	ClusterExtension string `json:"clusterExtension,omitempty"`
	Package          string `json:"package"`
	// Channel is the channel of the Subscription. A ClusterExtension may have several, or none, which means all.
	Channel string `json:"channel"`
	// Installed is the ClusterServiceVersion, or the bundle, that is installed, if any.
	Installed string `json:"installed,omitempty"`
	// Assumed says that the catalog does not have the hypothetical installed version.
	Assumed bool `json:"assumed,omitempty"`
	// Support says how the installed version is supported today, if the catalog has its lifecycle.
	Support  *lifecycle.Support `json:"support,omitempty"`
	Reaction Reaction           `json:"verdict"`
	// Next is the next update or installation.
	Next *Update `json:"next,omitempty"`
	// Dependencies are the bundles that OLM installs together with Next.
	Dependencies []string `json:"dependencies,omitempty"`
	// Then are the updates that follow Next. They end at the head of the channel if ReachesHead is true.
	Then        []Update `json:"then,omitempty"`
	ReachesHead bool     `json:"reachesHead"`
	// Why are the reasons for Stranded and Refused. Blockers are the reasons for Waits.
	Why      []Reason `json:"why,omitempty"`
	Blockers []Reason `json:"blockers,omitempty"`
	// Risks tell people what they should know before OLM proceeds. Warnings are their texts.
	Risks    []Reason `json:"risks,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// Message is the message that OLM will write into the condition ResolutionFailed, or OLM v1 into the condition Progressing.
	Message string `json:"message,omitempty"`
	// MessageGoesOn says that OLM's message continues with details that are not predicted.
	MessageGoesOn bool `json:"messageGoesOn,omitempty"`
	// Reason is the reason of the condition Progressing if OLM v1 refuses: Retrying, InvalidConfiguration or Blocked. With the last two, OLM
	// does not try again before the ClusterExtension changes.
	Reason string `json:"reason,omitempty"`
	// Says is the current reason and message of the ClusterExtension's condition Progressing.
	Says string `json:"says,omitempty"`

	bundles []Bundle
}

// Bundle is a bundle that OLM installs, and the CatalogSource that it comes from.
type Bundle struct {
	From Source
	*fbc.Bundle
}

// Bundles returns the bundles of Next and of Dependencies. A Prediction that was decoded from JSON has none.
func (p *Prediction) Bundles() []Bundle { return p.bundles }

// Update is an update, or the first installation, of a package.
type Update struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Edge is the kind of upgrade edge from the previous version. Range is the range of a skipRange edge.
	Edge  upgrade.Edge `json:"edge,omitempty"`
	Range string       `json:"skipRange,omitempty"`
	// Support says how the version is supported today, if the catalog has its lifecycle.
	Support *lifecycle.Support `json:"support,omitempty"`
}

// Reason explains a reaction, a blocker or a risk. Do says what people can do about it.
type Reason struct {
	Code Code   `json:"code"`
	What string `json:"what"`
	Do   string `json:"do,omitempty"`
}

// Predict predicts what OLM will do with each Subscription whose catalog is in the State, in the order of the State's
// Subscriptions. It reads the CRDs that an update would change, and their custom resources, from the cluster. It fails if it
// cannot read these, or a bundle.
func (st *State) Predict(ctx context.Context) ([]*Prediction, error) {
	st = st.normalized()
	st.deadline = time.Now().Add(resolverTime)
	resolved, refusal := st.resolve(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var all []*Prediction
	var unresolved others
	if refusal != nil {
		unresolved = st.unresolved()
	}
	for _, s := range st.Subscriptions {
		f := st.subject(s)
		if f.catalog == nil && st.offers(sourceOf(s)) && !st.unreachableSource(sourceOf(s)) {
			continue // this Subscription only constrains the resolution of the others
		}
		if refusal != nil {
			f.refused(refusal, unresolved)
		} else if err := f.resolved(ctx, resolved); err != nil {
			return nil, err
		}
		all = append(all, f.Prediction)
	}
	return all, nil
}

// subject is the Subscription of a Prediction, with its package and channel in the catalog. These are nil if the catalog lacks them.
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
		Prediction:   &Prediction{Package: s.Spec.Package, Channel: s.Spec.Channel},
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
	f.Assumed = st.hypothetical && f.csv != nil && f.pkg.FindBundle(f.csv.Name) == nil
	if f.Channel == "" { // then OLM prefers the default channel
		f.Channel = f.pkg.DefaultChannel
	}
	if f.channel = f.pkg.FindChannel(f.Channel); f.channel != nil {
		f.graph = upgrade.Of(f.pkg, f.channel)
	}
	return f
}

// installed returns the version that the Subscription has installed.
func (f *subject) installed() upgrade.Version {
	return upgrade.Version{Name: f.csv.Name, Number: &f.csv.Spec.Version.Version}
}

// maxOthers is the maximum number of other Subscriptions of a namespace that a prediction names. Whoever may write to the namespace can
// create very many, and each has a prediction.
const maxOthers = 10

// others are the Subscriptions of a namespace that OLM cannot resolve: the first ones, and the number of all.
type others struct {
	first []unresolved
	n     int
}

type unresolved struct {
	*v1alpha1.Subscription
	why []Reason
}

// unresolved finds the Subscriptions that OLM cannot resolve because of their own problems.
func (st *State) unresolved() (found others) {
	for _, s := range st.Subscriptions {
		why := st.subject(s).subscriptionProblems()
		if len(why) == 0 {
			continue
		}
		if found.n++; found.n <= maxOthers+1 { // one of them may be the prediction's own Subscription
			found.first = append(found.first, unresolved{s, why})
		}
	}
	return found
}

// refused explains why OLM resolves nothing in the namespace.
func (f *subject) refused(refusal error, others others) {
	if errors.Is(refusal, errSlow) || errors.Is(refusal, errLarge) {
		f.Reaction, f.Why = Refused, []Reason{{Code: ResolverSlow, What: fmt.Sprintf("on package %s, %v", f.Package, refusal),
			Do: "have fewer bundles that exclude each other, or simpler constraints"}}
		return
	}
	f.Reaction, f.Message = Refused, refusal.Error()
	f.Why = f.namespaceProblems()
	named, n := 0, others.n
	if len(f.subscriptionProblems()) > 0 {
		n-- // others counts this Subscription, too
	}
	for _, other := range others.first {
		if other.Subscription == f.subscription {
			continue
		}
		if named++; named > maxOthers {
			break
		}
		for _, reason := range other.why {
			reason.What = "OLM resolves all Subscriptions of the namespace together, and cannot resolve Subscription " + other.Name + ": " + reason.What
			f.Why = append(f.Why, reason)
		}
	}
	if n > maxOthers {
		f.Why[len(f.Why)-1].What += fmt.Sprintf("; and %d more Subscriptions", n-maxOthers)
	}
	if len(f.Why) == 0 {
		reason := f.dependencyReason(f.graph.Chain[0])
		reason.What = stripBoilerplate(refusal)
		f.Why = []Reason{reason}
	}
	if pending := pendingInstallPlan(f, nil); pending != nil { // OLM checks this before it resolves
		f.Reaction, f.Message, f.Blockers = Waits, "", []Reason{*pending}
	}
}

// resolved explains the choice of OLM's resolver for the Subscription.
func (f *subject) resolved(ctx context.Context, r *resolution) error {
	if f.pkg != nil && f.channel == nil && f.Channel == "" { // then OLM takes a bundle from any channel
		for _, c := range f.pkg.Channels {
			if g := upgrade.Of(f.pkg, c); g.Find(r.chosen[f.subscription.Name]) != nil {
				f.Channel, f.channel, f.graph = c.Name, c, g
				break
			}
		}
	}
	chosen := f.graph.Find(r.chosen[f.subscription.Name])
	switch {
	case chosen != nil && f.csv == nil:
		f.Reaction, f.Next = Installs, newUpdate(upgrade.Update{Entry: chosen})
	case chosen != nil:
		f.Reaction, f.Next = Updates, newUpdate(upgrade.Update{Entry: chosen, Edge: chosen.Follows(f.installed())})
	case f.csv == nil:
		f.Reaction, f.Blockers = Waits, []Reason{{Code: Installing, What: "OLM is installing " + f.subscription.Status.CurrentCSV}}
	case len(f.graph.Heads) == 1 && f.graph.Heads[0].Name == f.csv.Name:
		f.Reaction, f.ReachesHead = Latest, true
	default:
		f.Reaction = Stranded
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
		if err := f.predictLater(ctx, r); err != nil {
			return err
		}
	}
	if err := f.findBlockers(ctx, chosen); err != nil {
		return err
	}
	f.findRisks(chosen)
	f.warnAboutRemovedAPIs(f.pkg, f.state.api != nil)
	if err := f.findSupport(f.pkg, f.state.Today, f.state.OpenShift); err != nil {
		return err
	}
	for _, risk := range f.Risks {
		f.Warnings = append(f.Warnings, risk.What)
	}
	return nil
}

// predictLater predicts the updates after the first one: it runs the resolver again on the state after each update.
func (f *subject) predictLater(ctx context.Context, r *resolution) error {
	st, last := f.state, f.Next.Name
	for seen := map[string]bool{}; !seen[last]; {
		seen[last] = true
		var err error
		if st, err = st.installed(r); err != nil {
			return err
		}
		r, err = st.resolve(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errSlow) || errors.Is(err, errLarge) {
			f.risk(ResolverSlow, "", "%v; the updates after %s are not predicted", err, last)
			return nil
		}
		if err != nil {
			return nil // OLM refuses the next update; findRisks warns that updates end before the head
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

// findBlockers finds the reasons why OLM cannot install its choice.
func (f *subject) findBlockers(ctx context.Context, chosen *upgrade.Entry) error {
	if chosen == nil {
		return nil
	}
	bundle := f.pkg.FindBundle(chosen.Name)
	details, err := bundle.Details()
	if err != nil {
		return err
	}
	if details.Undecodable != nil {
		f.Blockers = append(f.Blockers, Reason{Undecodable, fmt.Sprintf("%s is at %s:%d, and OLM resolves nothing in the namespace when it chooses it: %v", bundle.Name, bundle.File, bundle.Line, details.Undecodable),
			"have the ClusterServiceVersion of the bundle corrected in the catalog"})
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
		f.Reaction = Waits
	}
	return nil
}

// Good reports whether the reactions of all predictions are good.
func Good(predictions []*Prediction) bool {
	return !slices.ContainsFunc(predictions, func(p *Prediction) bool { return !p.Reaction.Good() })
}
