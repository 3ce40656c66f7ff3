package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/catalog/upgrade"
)

// searchElsewhere is said where something is required that may be elsewhere.
const searchElsewhere = "see that another catalog of the cluster has what is required; only this one has been searched"

// attendant is what OLM's resolver says besides why something cannot be.
var attendant = regexp.MustCompile(`(, |^)subscription \S+ (exists|requires [^, ]+)`)

// unsatisfiable is what OLM's resolver says of why it refuses, without what everybody knows.
func unsatisfiable(refusal error) string {
	said := strings.TrimPrefix(refusal.Error(), "constraints not satisfiable: ")
	return strings.TrimPrefix(attendant.ReplaceAllString(said, ""), ", ")
}

// ownObstacles finds what keeps OLM from resolving anything for the Subscription itself.
func (f *subject) ownObstacles() []Reason {
	switch {
	case f.catalog == nil:
		return nil
	case f.pkg == nil:
		return []Reason{{PackageAbsent, fmt.Sprintf("the catalog has no package %q", f.Package), "set spec.name of the Subscription to a package that it has"}}
	case f.channel == nil:
		var names []string
		for _, c := range f.pkg.Channels {
			names = append(names, c.Name)
		}
		slices.Sort(names)
		return []Reason{{ChannelAbsent, fmt.Sprintf("package %q has no channel %q", f.Package, f.Channel), "set spec.channel of the Subscription to one of " + strings.Join(names, ", ")}}
	case len(f.graph.Chain) == 0:
		return []Reason{{ChannelBroken, fmt.Sprintf("OLM finds no order in channel %q, as `berth catalog validate` explains", f.Channel), "have the catalog corrected"}}
	case f.csv == nil && f.subscription.Spec.StartingCSV != "" && f.graph.Find(f.subscription.Spec.StartingCSV) == nil:
		return []Reason{{StartAbsent, fmt.Sprintf("channel %q has no entry %q, which spec.startingCSV of the Subscription names", f.Channel, f.subscription.Spec.StartingCSV),
			"leave startingCSV away, or name an entry of the channel"}}
	}
	return nil
}

// obstacles finds what keeps OLM from resolving anything in the namespace.
func (f *subject) obstacles() []Reason {
	found := f.ownObstacles()
	if n := len(f.world.OperatorGroups); n != 1 {
		found = append(found, Reason{OperatorGroups, fmt.Sprintf("namespace %s has %d OperatorGroups, and OLM wants one", f.world.Namespace, n), "leave one OperatorGroup in the namespace"})
	}
	for _, other := range f.world.Subscriptions {
		if other != f.subscription && other.Spec.Package == f.Package {
			found = append(found, Reason{SecondSubscription, fmt.Sprintf("Subscription %s asks for package %q, too", other.Name, f.Package), "delete one of the Subscriptions"})
		}
	}
	if orphan := f.orphan(); orphan != nil {
		found = append(found, Reason{OrphanedCSV, fmt.Sprintf("ClusterServiceVersion %s is of this package, and no Subscription has it installed: OLM neither takes it over nor installs another one beside it", orphan.Name),
			"delete that ClusterServiceVersion; its CRDs and their objects stay"})
	}
	return found
}

// orphan returns a ClusterServiceVersion that the subject's Subscription should have, but that none has, or
// nil. That is left where somebody has deleted a Subscription.
func (f *subject) orphan() *v1alpha1.ClusterServiceVersion {
	if f.csv != nil {
		return nil
	}
	owned := map[string]bool{}
	for _, s := range f.world.Subscriptions {
		owned[s.Status.InstalledCSV] = true
	}
	for _, csv := range f.world.CSVs {
		if !owned[csv.Name] && f.mayBe(csv) {
			return csv
		}
	}
	return nil
}

// mayBe tells whether a ClusterServiceVersion is one of the subject's package.
func (f *subject) mayBe(csv *v1alpha1.ClusterServiceVersion) bool {
	if f.pkg != nil && f.pkg.FindBundle(csv.Name) != nil {
		return true
	}
	name, _, _ := strings.Cut(csv.Name, ".")
	return name == f.Package
}

// strands says why no update leads on from what is installed, in a channel whose head is another one.
func (f *subject) strands() []Reason {
	installed := f.installed()
	if next := f.graph.Next(installed); next != nil {
		return []Reason{f.unsatisfied(next)}
	}
	head := f.graph.Heads[0]
	reason := Reason{Code: NoEdge, What: fmt.Sprintf("in channel %q, whose head is %s, no entry that OLM may install replaces %s, skips it or has %s in its skipRange",
		f.Channel, head.Name, installed.Name, installed.Number)}
	if head.Number != nil && head.Number.LT(*installed.Number) {
		reason.What += "; it is later than the head"
	}
	reason.Do = f.wayOut(installed)
	return []Reason{reason}
}

// unsatisfied says why OLM does not make an update that the channel has.
func (f *subject) unsatisfied(next *upgrade.Step) Reason {
	reason := Reason{Code: Unsatisfied, What: fmt.Sprintf("%s follows, but OLM cannot install it", next.Entry.Name), Do: searchElsewhere}
	// Asked for nothing else, OLM has to say why.
	alone := *f.world
	subscription := f.subscription.DeepCopy()
	subscription.Status = v1alpha1.SubscriptionStatus{}
	subscription.Spec.StartingCSV = next.Entry.Name
	alone.Subscriptions = slices.Clone(alone.Subscriptions)
	alone.Subscriptions[slices.Index(alone.Subscriptions, f.subscription)] = subscription
	alone.CSVs = slices.DeleteFunc(slices.Clone(alone.CSVs), func(csv *v1alpha1.ClusterServiceVersion) bool { return csv == f.csv })
	if _, err := alone.resolve(); err != nil {
		reason.What += ": " + unsatisfiable(err)
	}
	return reason
}

// wayOut looks for a channel that leads on.
func (f *subject) wayOut(installed upgrade.Version) string {
	var names []string
	for _, c := range f.pkg.Channels {
		g := upgrade.Of(f.pkg, c)
		if steps, arrives := g.Path(installed); arrives && len(steps) > 0 {
			names = append(names, fmt.Sprintf("%s (to %s)", c.Name, g.Heads[0].Name))
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "no channel of the package leads on: its maker has to add an entry that does"
	}
	return "set spec.channel of the Subscription to one that leads on: " + strings.Join(names, ", ")
}
