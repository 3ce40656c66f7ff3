package prediction

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/findings/nearest"
	"github.com/berth-csi/berth/olm/catalogsource"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Advice for a version whose dependencies are missing, or that conflicts with installed operators.
const (
	searchElsewhere = "check that another catalog of the cluster has the dependency; only this one was searched"
	addCatalog      = "add a CatalogSource whose catalog has the dependency"
	makeRoom        = "uninstall what conflicts, or choose a version that does not conflict"
)

// boilerplate matches the parts of the resolver's message that only repeat the Subscription.
var boilerplate = regexp.MustCompile(`(, |^)subscription \S+ (exists|requires [^, ]+)`)

// stripBoilerplate returns the resolver's message without boilerplate.
func stripBoilerplate(refusal error) string {
	message := strings.TrimPrefix(refusal.Error(), "constraints not satisfiable: ")
	return strings.TrimPrefix(boilerplate.ReplaceAllString(message, ""), ", ")
}

// subscriptionProblems finds reasons why OLM cannot resolve the Subscription itself.
func (f *subject) subscriptionProblems() []Reason {
	switch source := sourceOf(f.subscription); {
	case !f.state.offers(source):
		what := fmt.Sprintf("there is no CatalogSource %s in namespace %s", source.Name, source.Namespace)
		if source.Namespace != f.state.Namespace {
			what += ", or OLM does not use it for this namespace: it uses the namespace's own and, unless the OperatorGroup excludes them, global ones"
		}
		return []Reason{{SourceMissing, what, "set spec.source and spec.sourceNamespace of the Subscription to one that `oc get catalogsources -A` lists, or create it"}}
	case f.catalog == nil:
		return nil
	case f.pkg == nil:
		return []Reason{{PackageAbsent, fmt.Sprintf("the catalog has no package %q", f.Package), f.otherPackage()}}
	case f.channel == nil:
		var names []string
		for _, c := range f.pkg.Channels {
			names = append(names, c.Name)
		}
		slices.Sort(names)
		what := fmt.Sprintf("package %q has no channel %q", f.Package, f.Channel)
		if f.Channel == "" {
			what = fmt.Sprintf("the Subscription names no channel, and package %q has no default channel", f.Package)
		}
		return []Reason{{ChannelAbsent, what, "set spec.channel of the Subscription to one of " + strings.Join(names, ", ")}}
	case len(f.graph.Chain) == 0:
		return []Reason{{ChannelBroken, fmt.Sprintf("channel %q has %s, and OLM resolves nothing from such a channel", f.Channel, f.brokenBy()), "have the catalog corrected, as `berth catalog validate` says"}}
	case f.csv == nil && f.subscription.Spec.StartingCSV != "" && f.graph.Find(f.subscription.Spec.StartingCSV) == nil:
		return []Reason{{StartAbsent, fmt.Sprintf("channel %q has no entry %q, which spec.startingCSV of the Subscription names", f.Channel, f.subscription.Spec.StartingCSV),
			"remove startingCSV, or set it to an entry of the channel"}}
	}
	return nil
}

// brokenBy says why OLM cannot order the channel.
func (f *subject) brokenBy() string {
	if len(f.graph.Heads) > 1 {
		var names []string
		for _, head := range f.graph.Heads {
			names = append(names, head.Name)
		}
		return fmt.Sprintf("%d heads, %s", len(names), strings.Join(names, ", "))
	}
	if len(f.graph.Cycle) > 0 {
		return "a cycle, " + strings.Join(f.graph.Cycle, " -> ")
	}
	return "no entry"
}

// namespaceProblems finds reasons why OLM cannot resolve anything in the namespace.
func (f *subject) namespaceProblems() []Reason {
	found := append(f.state.unreachableSources(), f.subscriptionProblems()...)
	if n := len(f.state.OperatorGroups); n != 1 {
		found = append(found, Reason{OperatorGroups, fmt.Sprintf("namespace %s has %d OperatorGroups, and OLM requires exactly one", f.state.Namespace, n), "keep one OperatorGroup in the namespace"})
	}
	twins := 0
	for _, other := range f.state.Subscriptions {
		if other == f.subscription || other.Spec.Package != f.Package {
			continue
		}
		if twins++; twins <= maxOthers {
			found = append(found, Reason{SecondSubscription, fmt.Sprintf("Subscription %s is for package %q, too", other.Name, f.Package), f.redundantSubscription(other)})
		}
	}
	if twins > maxOthers {
		found[len(found)-1].What += fmt.Sprintf("; and %d more Subscriptions", twins-maxOthers)
	}
	if orphan := f.orphan(); orphan != nil {
		found = append(found, Reason{OrphanedCSV, fmt.Sprintf("ClusterServiceVersion %s is of this package, and no Subscription has it installed: OLM neither adopts it nor installs another one beside it", orphan.Name),
			fmt.Sprintf("delete that ClusterServiceVersion, and when it is gone, change the Subscription in any way, as with `%s`: "+
				"OLM does not resolve again by itself. The operator stops in the meantime; its CRDs and their objects stay",
				escape.Command("oc annotate subscription %s -n %s resolve=again", f.subscription.Name, f.state.Namespace))})
	}
	return found
}

// redundantSubscription advises which of two Subscriptions to the same package to delete: the one with nothing installed.
func (f *subject) redundantSubscription(other *v1alpha1.Subscription) string {
	switch {
	case f.csv != nil && f.state.csv(other.Status.InstalledCSV) == nil:
		return fmt.Sprintf("delete Subscription %s, which has nothing installed", other.Name)
	case f.csv == nil && f.state.csv(other.Status.InstalledCSV) != nil:
		return fmt.Sprintf("delete Subscription %s, which has nothing installed", f.subscription.Name)
	}
	return "delete one of the Subscriptions"
}

// unreachableSources finds the catalogs that OLM cannot reach. A single one keeps OLM from resolving anything, even from the
// others.
func (st *State) unreachableSources() (found []Reason) {
	for _, s := range st.CatalogSources {
		if !catalogsource.Reachable(s) && st.considers(s) {
			found = append(found, Reason{SourceUnreachable,
				fmt.Sprintf("OLM cannot reach CatalogSource %s in namespace %s (its connection is %s), and resolves nothing from any other until it can",
					s.Name, s.Namespace, catalogsource.ConnectionState(s)),
				fmt.Sprintf("see why with `%s`; repair it or delete it", escape.Command("oc describe catalogsource %s -n %s", s.Name, s.Namespace))})
		}
	}
	return found
}

// otherPackage returns the advice to use a package of the catalog that provides the APIs of the installed version, if there is one.
func (f *subject) otherPackage() string {
	installed := map[string]bool{}
	if f.csv != nil {
		for _, owned := range f.csv.Spec.CustomResourceDefinitions.Owned {
			installed[groupOf(owned.Name)+" "+owned.Kind] = true
		}
	}
	var names []string
	for _, p := range f.catalog.Packages {
		c := p.FindChannel(p.DefaultChannel)
		if c == nil {
			continue
		}
		for _, head := range upgrade.Of(p, c).Heads {
			for api := range apis(p.FindBundle(head.Name), property.TypeGVK) {
				if name := fmt.Sprintf("%s (channel %s)", p.Name, c.Name); installed[api.Group+" "+api.Kind] && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	if len(names) == 0 {
		var all []string
		for _, p := range f.catalog.Packages {
			all = append(all, p.Name)
		}
		return "set spec.name of the Subscription to a package of the catalog" + nearest.Hint(f.Package, all)
	}
	return "set spec.name, and spec.channel, of the Subscription to a package that provides the same APIs: " + strings.Join(names, ", ")
}

// groupOf returns the API group in the name of a CRD.
func groupOf(definition string) string {
	_, group, _ := strings.Cut(definition, ".")
	return group
}

// orphan returns a ClusterServiceVersion of the package that no Subscription has installed, or nil. Deleting a Subscription leaves its
// ClusterServiceVersion behind.
func (f *subject) orphan() *v1alpha1.ClusterServiceVersion {
	if f.csv != nil {
		return nil
	}
	owned := map[string]bool{}
	for _, s := range f.state.Subscriptions {
		owned[s.Status.InstalledCSV] = true
	}
	for _, csv := range f.state.CSVs {
		if !owned[csv.Name] && f.belongsToPackage(csv) {
			return csv
		}
	}
	return nil
}

// belongsToPackage reports whether a ClusterServiceVersion probably belongs to the subject's package.
func (f *subject) belongsToPackage(csv *v1alpha1.ClusterServiceVersion) bool {
	if f.pkg != nil && f.pkg.FindBundle(csv.Name) != nil {
		return true
	}
	name, _, _ := strings.Cut(csv.Name, ".")
	return name == f.Package
}

// whyStranded explains why OLM makes no update although another version is the head of the channel.
func (f *subject) whyStranded() []Reason {
	if problems := f.subscriptionProblems(); len(problems) > 0 {
		return problems
	}
	installed := f.installed()
	if next := f.graph.Next(installed); next != nil {
		return []Reason{f.unsatisfied(next)}
	}
	head := f.graph.Heads[0]
	reason := Reason{Code: NoEdge, What: fmt.Sprintf("in channel %q, whose head is %s, no entry that OLM may install replaces %s, skips it or includes %s in its skipRange",
		f.Channel, head.Name, installed.Name, installed.Number)}
	if head.Number != nil && head.Number.LT(*installed.Number) {
		reason.What += "; the installed version is later than the head"
	}
	reason.Do = f.otherChannels(installed)
	return []Reason{reason}
}

// unsatisfied explains why OLM does not make an update although the channel has an edge for it.
func (f *subject) unsatisfied(next *upgrade.Update) Reason {
	reason := f.dependencyReason(next.Entry)
	reason.What = fmt.Sprintf("the next version is %s, but OLM cannot install it", next.Entry.Name)
	// If the resolver is asked for just this version, it must fail, and its error says why.
	alone := *f.state
	subscription := f.subscription.DeepCopy()
	subscription.Status = v1alpha1.SubscriptionStatus{}
	subscription.Spec.StartingCSV = next.Entry.Name
	alone.Subscriptions = slices.Clone(alone.Subscriptions)
	alone.Subscriptions[slices.Index(alone.Subscriptions, f.subscription)] = subscription
	alone.CSVs = slices.DeleteFunc(slices.Clone(alone.CSVs), func(csv *v1alpha1.ClusterServiceVersion) bool { return csv == f.csv })
	if _, err := alone.resolve(context.Background()); err != nil {
		reason.What += ": " + stripBoilerplate(err)
	}
	return reason
}

// otherChannels returns the advice to use a channel with an upgrade path from the installed version to its head, if there is one.
func (f *subject) otherChannels(installed upgrade.Version) string {
	var names []string
	for _, c := range f.pkg.Channels {
		g := upgrade.Of(f.pkg, c)
		if steps, arrives := g.Path(installed); arrives && len(steps) > 0 {
			names = append(names, fmt.Sprintf("%s (to %s)", c.Name, g.Heads[0].Name))
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "no channel of the package has an upgrade path from this version: the package's maker has to add one"
	}
	return "set spec.channel of the Subscription to one with an upgrade path: " + strings.Join(names, ", ")
}
