package prediction

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver/projection"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/fbc"
)

// World is what OLM decides from, in one namespace. OLM decides for all Subscriptions of a namespace
// together.
type State struct {
	Namespace      string
	Subscriptions  []*v1alpha1.Subscription
	CSVs           []*v1alpha1.ClusterServiceVersion // but for copies of those of other namespaces
	InstallPlans   []*v1alpha1.InstallPlan
	OperatorGroups []*operatorsv1.OperatorGroup
	Conditions     []*operatorsv2.OperatorCondition
	// Kubernetes is the version of the API server, nil if there is none to ask, and OpenShift that of the
	// cluster, nil if it is none of OpenShift.
	Kubernetes, OpenShift *semver.Version
	// CatalogSources are those that OLM looks at for the namespace: its own and the global ones.
	CatalogSources []*v1alpha1.CatalogSource
	// Elsewhere are the other namespaces of the cluster that have an OperatorGroup or a Subscription.
	Elsewhere []*State
	// Catalogs are those that Subscriptions name. One that a Subscription names and that is not here
	// has nothing new for it.
	Catalogs map[Source]*fbc.Catalog

	hypothetical bool
	// stored is what else the cluster has, nil if there is none to ask.
	api *apiReader
	// stalled are the InstallPlans, which are gone, that Subscriptions wait for without end, by the names of these.
	missingInstallPlans map[string]string
	// turned are the sources that Subscriptions had before they were turned, by the names of Subscriptions.
	previousSources map[string]Source
}

// Source names a CatalogSource.
type Source struct{ Namespace, Name string }

// sourceOf returns the source that a Subscription names.
func sourceOf(s *v1alpha1.Subscription) Source {
	return Source{s.Spec.CatalogSourceNamespace, s.Spec.CatalogSource}
}

// The names in a world that is made up. They matter to nobody.
const (
	hypotheticalNamespace = "default"
	hypotheticalSource    = "this-catalog"
)

// Installed returns a world in which a version of a package is installed from a catalog and nothing
// else is, or nothing at all if the version is empty. The version is a semantic one, or the name of a
// ClusterServiceVersion. The Subscription is to a channel, or to the default one if that is empty.
func Installed(c *fbc.Catalog, pkg, version, channel string) (*State, error) {
	p := c.Find(pkg)
	if channel == "" && p != nil {
		channel = p.DefaultChannel
	}
	subscription := &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Name: pkg, Namespace: hypotheticalNamespace},
		Spec: &v1alpha1.SubscriptionSpec{
			CatalogSource: hypotheticalSource, CatalogSourceNamespace: hypotheticalNamespace, Package: pkg, Channel: channel,
		},
	}
	st := &State{
		hypothetical:         true,
		Namespace:      hypotheticalNamespace,
		Subscriptions:  []*v1alpha1.Subscription{subscription},
		OperatorGroups: []*operatorsv1.OperatorGroup{{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: hypotheticalNamespace}}},
		Catalogs:       map[Source]*fbc.Catalog{sourceOf(subscription): c},
	}
	if version == "" {
		return st, nil
	}
	csv, err := installedCSV(p, pkg, version)
	if err != nil {
		return nil, err
	}
	st.CSVs = append(st.CSVs, csv)
	subscription.Status = v1alpha1.SubscriptionStatus{CurrentCSV: csv.Name, InstalledCSV: csv.Name, State: v1alpha1.SubscriptionStateAtLatest}
	return st, nil
}

// installedCSV makes up what OLM has left of a version that it has installed. The package is nil if the
// catalog has none of that name.
func installedCSV(p *fbc.Package, pkg, installed string) (*v1alpha1.ClusterServiceVersion, error) {
	name, number := identify(p, pkg, installed)
	if number == nil {
		return nil, fmt.Errorf("which version %s of package %s is nobody can tell; want a version like 1.2.3, or the name of a ClusterServiceVersion "+
			"that the catalog has or that ends in one, like %s.v1.2.3", installed, pkg, pkg)
	}
	return newCSV(p, pkg, hypotheticalNamespace, name, *number)
}

// newCSV makes up the ClusterServiceVersion of a version. The package is nil if the catalog has none of
// that name.
func newCSV(p *fbc.Package, pkg, namespace, name string, number semver.Version) (*v1alpha1.ClusterServiceVersion, error) {
	value := property.MustBuildPackage(pkg, number.String())
	known := []*api.Property{{Type: value.Type, Value: string(value.Value)}}
	if p != nil && p.FindBundle(name) != nil {
		known = properties(p.FindBundle(name))
	}
	annotation, err := projection.PropertiesAnnotationFromPropertyList(known)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.ClusterServiceVersion{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: map[string]string{projection.PropertiesAnnotationKey: annotation}},
		Spec:       v1alpha1.ClusterServiceVersionSpec{Version: version.OperatorVersion{Version: number}},
		Status:     v1alpha1.ClusterServiceVersionStatus{Phase: v1alpha1.CSVPhaseSucceeded},
	}, nil
}

// Turn returns the world as it is once somebody has changed the spec of one of its Subscriptions. OLM takes
// no notice of that in the Subscription's status: what is installed, and what InstallPlan is pending, stays.
// It fails if there is no such Subscription.
func (st *State) WithSpec(subscription string, change func(*v1alpha1.SubscriptionSpec)) (*State, error) {
	i := slices.IndexFunc(st.Subscriptions, func(s *v1alpha1.Subscription) bool { return s.Name == subscription })
	if i < 0 {
		return nil, fmt.Errorf("namespace %s has no Subscription %s", st.Namespace, subscription)
	}
	turned := *st
	turned.Subscriptions, turned.previousSources = slices.Clone(st.Subscriptions), maps.Clone(st.previousSources)
	if turned.previousSources == nil {
		turned.previousSources = map[string]Source{}
	}
	s := st.Subscriptions[i].DeepCopy()
	turned.previousSources[s.Name] = sourceOf(s)
	change(s.Spec)
	turned.Subscriptions[i] = s
	return &turned, nil
}

// Put puts a catalog into the place of those that Subscriptions to its packages name, and says how many
// these are. What other Subscriptions have stays as it is.
func (st *State) SubstituteCatalog(c *fbc.Catalog) (subscriptions int) {
	put := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: hypotheticalSource, Namespace: st.Namespace},
		Status: v1alpha1.CatalogSourceStatus{GRPCConnectionState: &v1alpha1.GRPCConnectionState{LastObservedState: "READY"}}}
	st.Catalogs = map[Source]*fbc.Catalog{{put.Namespace, put.Name}: c}
	for _, s := range st.Subscriptions {
		if c.Find(s.Spec.Package) == nil {
			continue
		}
		st.CatalogSources = slices.DeleteFunc(st.CatalogSources, func(c *v1alpha1.CatalogSource) bool { return Source{c.Namespace, c.Name} == sourceOf(s) })
		s.Spec.CatalogSource, s.Spec.CatalogSourceNamespace = put.Name, put.Namespace
		subscriptions++
	}
	st.CatalogSources = append(st.CatalogSources, put)
	return subscriptions
}

// after returns the world as it is when OLM has done what it chose.
func (st *State) installed(r *resolution) (*State, error) {
	later := *st
	later.Subscriptions, later.CSVs = nil, slices.Clone(st.CSVs)
	for _, s := range slices.Concat(st.Subscriptions, r.created) {
		chosen := r.chosen[s.Name]
		if slices.Contains(r.created, s) {
			chosen = s.Spec.StartingCSV
		}
		c := st.Catalogs[sourceOf(s)]
		if chosen == "" || c == nil {
			later.Subscriptions = append(later.Subscriptions, s)
			continue
		}
		p := c.Find(s.Spec.Package)
		csv, err := newCSV(p, p.Name, st.Namespace, chosen, *p.FindBundle(chosen).Number())
		if err != nil {
			return nil, err
		}
		later.CSVs = append(slices.DeleteFunc(later.CSVs, func(old *v1alpha1.ClusterServiceVersion) bool { return old.Name == s.Status.InstalledCSV }), csv)
		s = s.DeepCopy()
		s.Namespace = st.Namespace
		s.Status = v1alpha1.SubscriptionStatus{CurrentCSV: chosen, InstalledCSV: chosen, State: v1alpha1.SubscriptionStateAtLatest}
		later.Subscriptions = append(later.Subscriptions, s)
	}
	return &later, nil
}

// identify returns the name and the number of a version that is told by either.
func identify(p *fbc.Package, pkg, installed string) (string, *semver.Version) {
	number, err := semver.Parse(installed)
	if p != nil {
		for _, b := range p.Bundles {
			if b.Name == installed || err == nil && b.Number() != nil && b.Number().EQ(number) {
				return b.Name, b.Number()
			}
		}
	}
	if err == nil {
		return pkg + ".v" + installed, &number
	}
	if _, behind, found := strings.Cut(installed, ".v"); found {
		if number, err := semver.Parse(behind); err == nil {
			return installed, &number
		}
	}
	return installed, nil
}

// settled returns the world as OLM has it before it decides: Subscriptions say what is installed for
// them, or that an update is under way, and wait for nothing that is gone.
func (st *State) normalized() *State {
	settled := *st
	settled.Subscriptions, settled.missingInstallPlans = nil, map[string]string{}
	for _, s := range st.Subscriptions {
		s = s.DeepCopy()
		missing, stalled := Missing(s, st.InstallPlans)
		if stalled {
			settled.missingInstallPlans[s.Name] = s.Status.InstallPlanRef.Name
		}
		switch {
		case missing:
			Unblock(s)
		case s.Status.CurrentCSV == "":
		case st.csv(s.Status.CurrentCSV) != nil:
			s.Status.InstalledCSV, s.Status.State = s.Status.CurrentCSV, v1alpha1.SubscriptionStateAtLatest
		default:
			s.Status.State = v1alpha1.SubscriptionStateUpgradePending
		}
		settled.Subscriptions = append(settled.Subscriptions, s)
	}
	return &settled
}

// known returns the world without Subscriptions that have nothing yet and are up to a catalog that nobody
// has read.
func (st *State) withoutUnread() *State {
	known := *st
	known.Subscriptions = slices.DeleteFunc(slices.Clone(st.Subscriptions), func(s *v1alpha1.Subscription) bool {
		return st.Catalogs[sourceOf(s)] == nil && st.offers(sourceOf(s)) && st.csv(s.Status.InstalledCSV) == nil
	})
	return &known
}

// offers tells whether OLM looks at a catalog for the namespace. In a world that is made up there are all.
func (st *State) offers(source Source) bool {
	return st.hypothetical || slices.ContainsFunc(st.CatalogSources, func(s *v1alpha1.CatalogSource) bool {
		return Source{s.Namespace, s.Name} == source && st.considers(s)
	})
}

// looksAt tells whether OLM looks at a catalog of the world, which it does not at a global one if the
// OperatorGroup says so.
func (st *State) considers(s *v1alpha1.CatalogSource) bool {
	return s.Namespace == st.Namespace || len(st.OperatorGroups) != 1 || st.OperatorGroups[0].Annotations[withoutGlobal] != "true"
}

// withoutGlobal is the annotation of an OperatorGroup whose namespace does without global catalogs.
const withoutGlobal = "olm.operatorframework.io/exclude-global-namespace-resolution"

// bundle returns a bundle of a catalog, or nil.
func (st *State) bundle(source Source, pkg, name string) *fbc.Bundle {
	c := st.Catalogs[source]
	if c == nil || c.Find(pkg) == nil {
		return nil
	}
	return c.Find(pkg).FindBundle(name)
}

// csv returns the ClusterServiceVersion of a name, or nil.
func (st *State) csv(name string) *v1alpha1.ClusterServiceVersion {
	for _, csv := range st.CSVs {
		if csv.Name == name {
			return csv
		}
	}
	return nil
}
