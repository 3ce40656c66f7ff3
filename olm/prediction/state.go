package prediction

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver/projection"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/olm/installplan"
	"github.com/berth-csi/berth/olm/upgrade"
)

// State is the observed state of one namespace, the input of OLM's resolver. OLM resolves all Subscriptions of a namespace
// together.
type State struct {
	Namespace      string
	Subscriptions  []*v1alpha1.Subscription
	CSVs           []*v1alpha1.ClusterServiceVersion // without copies from other namespaces
	InstallPlans   []*v1alpha1.InstallPlan
	OperatorGroups []*operatorsv1.OperatorGroup
	Conditions     []*operatorsv2.OperatorCondition
	// Kubernetes is the version of the API server, nil without a cluster. OpenShift is the version of OpenShift, nil if
	// the cluster does not run it.
	Kubernetes, OpenShift *semver.Version
	// Today is the day for which support is predicted, or "" for the current day.
	Today lifecycle.Date
	// CatalogSources are the CatalogSources of the namespace and the global ones.
	CatalogSources []*v1alpha1.CatalogSource
	// WithGroup are the States of all namespaces that have an OperatorGroup, this one among them. All States of a cluster share the slice.
	WithGroup []*State
	// Catalogs are the content of CatalogSources that Subscriptions name. A missing catalog is assumed to have only the versions that
	// are installed from it.
	Catalogs map[Source]*fbc.Catalog

	hypothetical bool
	// api reads CRDs and custom resources of the cluster. It is nil without a cluster.
	api *apiReader
	// missingInstallPlans are the names of deleted InstallPlans that Subscriptions wait for forever, by Subscription.
	missingInstallPlans map[string]string
	// previousSources are the sources of Subscriptions before WithSpec changed them, by Subscription.
	previousSources map[string]Source
	// deadline is the time by which the resolver must end.
	deadline time.Time
}

// Source names a CatalogSource.
type Source struct{ Namespace, Name string }

// sourceOf returns the source that a Subscription names.
func sourceOf(s *v1alpha1.Subscription) Source {
	return Source{s.Spec.CatalogSourceNamespace, s.Spec.CatalogSource}
}

// The names in a hypothetical State. No output shows them.
const (
	hypotheticalNamespace = "default"
	hypotheticalSource    = "this-catalog"
)

// Installed returns a hypothetical State with one Subscription to a package of a catalog. Only the given version of the package is
// installed, or nothing if version is empty. A version is a semantic version or the name of a ClusterServiceVersion. An empty channel means
// the package's default channel.
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
		hypothetical:   true,
		Namespace:      hypotheticalNamespace,
		Subscriptions:  []*v1alpha1.Subscription{subscription},
		OperatorGroups: []*operatorsv1.OperatorGroup{{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: hypotheticalNamespace}}},
		Catalogs:       map[Source]*fbc.Catalog{sourceOf(subscription): c},
	}
	if version == "" {
		return st, nil
	}
	was, err := identify(p, pkg, version)
	if err != nil {
		return nil, err
	}
	csv, err := newCSV(p, pkg, hypotheticalNamespace, was.Name, *was.Number)
	if err != nil {
		return nil, err
	}
	st.CSVs = append(st.CSVs, csv)
	subscription.Status = v1alpha1.SubscriptionStatus{CurrentCSV: csv.Name, InstalledCSV: csv.Name, State: v1alpha1.SubscriptionStateAtLatest}
	return st, nil
}

// newCSV returns the ClusterServiceVersion that OLM creates for a version, with only the fields that the resolver reads. The
// package is nil if the catalog lacks it.
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

// WithSpec returns a copy of the State with a changed spec of one Subscription. The status keeps the installed version and the
// pending InstallPlan, because OLM does not reset it after such a change. It fails if there is no such Subscription.
func (st *State) WithSpec(subscription string, change func(*v1alpha1.SubscriptionSpec)) (*State, error) {
	i := slices.IndexFunc(st.Subscriptions, func(s *v1alpha1.Subscription) bool { return s.Name == subscription })
	if i < 0 {
		return nil, fmt.Errorf("namespace %s has no Subscription %s", st.Namespace, subscription)
	}
	changed := *st
	changed.Subscriptions, changed.previousSources = slices.Clone(st.Subscriptions), maps.Clone(st.previousSources)
	if changed.previousSources == nil {
		changed.previousSources = map[string]Source{}
	}
	s := st.Subscriptions[i].DeepCopy()
	changed.previousSources[s.Name] = sourceOf(s)
	change(s.Spec)
	changed.Subscriptions[i] = s
	return &changed, nil
}

// SubstituteCatalog makes a catalog the source of all Subscriptions to its packages, and returns how many Subscriptions it has changed.
// Other Subscriptions keep their sources.
func (st *State) SubstituteCatalog(c *fbc.Catalog) (subscriptions int) {
	substitute := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: hypotheticalSource, Namespace: st.Namespace},
		Status: v1alpha1.CatalogSourceStatus{GRPCConnectionState: &v1alpha1.GRPCConnectionState{LastObservedState: "READY"}}}
	st.Catalogs = map[Source]*fbc.Catalog{{substitute.Namespace, substitute.Name}: c}
	for _, s := range st.Subscriptions {
		if c.Find(s.Spec.Package) == nil {
			continue
		}
		st.CatalogSources = slices.DeleteFunc(st.CatalogSources, func(c *v1alpha1.CatalogSource) bool { return Source{c.Namespace, c.Name} == sourceOf(s) })
		s.Spec.CatalogSource, s.Spec.CatalogSourceNamespace = substitute.Name, substitute.Namespace
		subscriptions++
	}
	st.CatalogSources = append(st.CatalogSources, substitute)
	return subscriptions
}

// installed returns the State after OLM has installed its choice.
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

// identify returns the name and the semantic version of an installed version, given either. The version may have a v before it, as Git's
// tags have. identify fails if the version is not valid, or if several bundles match it.
func identify(p *fbc.Package, pkg, installed string) (upgrade.Version, error) {
	number, err := semver.Parse(strings.TrimPrefix(installed, "v"))
	if p != nil {
		if b := p.FindBundle(installed); b != nil && b.Number() != nil {
			return upgrade.Version{Name: b.Name, Number: b.Number()}, nil
		}
		if err == nil {
			switch found := fbc.MatchVersion(number, p.Bundles, (*fbc.Bundle).Number); len(found) {
			case 0:
			case 1:
				return upgrade.Version{Name: found[0].Name, Number: found[0].Number()}, nil
			default:
				var names []string
				for _, b := range found {
					names = append(names, b.Number().String())
				}
				return upgrade.Version{}, fmt.Errorf("package %s has %d builds of version %s; want one of %s", pkg, len(found), installed, strings.Join(names, ", "))
			}
		}
	}
	if err == nil {
		return upgrade.Version{Name: pkg + ".v" + strings.TrimPrefix(installed, "v"), Number: &number}, nil
	}
	if _, suffix, found := strings.Cut(installed, ".v"); found {
		if number, err := semver.Parse(suffix); err == nil {
			return upgrade.Version{Name: installed, Number: &number}, nil
		}
	}
	return upgrade.Version{}, fmt.Errorf("%q is not a version of package %s; want a version like 1.2.3, or the name of a ClusterServiceVersion "+
		"that is in the catalog or ends in a version, like %s.v1.2.3", installed, pkg, pkg)
}

// normalized returns the State with the updates that OLM makes before it resolves: each Subscription's status names the installed version
// or a pending update, and no missing InstallPlan.
func (st *State) normalized() *State {
	normalized := *st
	normalized.Subscriptions, normalized.missingInstallPlans = nil, map[string]string{}
	for _, s := range st.Subscriptions {
		s = s.DeepCopy()
		missing, unnoticed := installplan.Missing(s, st.InstallPlans)
		if unnoticed {
			normalized.missingInstallPlans[s.Name] = s.Status.InstallPlanRef.Name
		}
		switch {
		case missing:
			installplan.Reset(s)
		case s.Status.CurrentCSV == "":
		case st.csv(s.Status.CurrentCSV) != nil:
			s.Status.InstalledCSV, s.Status.State = s.Status.CurrentCSV, v1alpha1.SubscriptionStateAtLatest
		default:
			s.Status.State = v1alpha1.SubscriptionStateUpgradePending
		}
		normalized.Subscriptions = append(normalized.Subscriptions, s)
	}
	return &normalized
}

// withoutUnread returns the State without Subscriptions that have nothing installed and whose catalog was not read: the
// resolver cannot tell what it would install for them.
func (st *State) withoutUnread() *State {
	read := *st
	read.Subscriptions = slices.DeleteFunc(slices.Clone(st.Subscriptions), func(s *v1alpha1.Subscription) bool {
		return st.Catalogs[sourceOf(s)] == nil && st.offers(sourceOf(s)) && st.csv(s.Status.InstalledCSV) == nil
	})
	return &read
}

// offers reports whether OLM uses a CatalogSource for the namespace. In a hypothetical State, it uses all.
func (st *State) offers(source Source) bool {
	return st.hypothetical || slices.ContainsFunc(st.CatalogSources, func(s *v1alpha1.CatalogSource) bool {
		return Source{s.Namespace, s.Name} == source && st.considers(s)
	})
}

// considers reports whether OLM uses an existing CatalogSource for the namespace. It does not use global ones if the OperatorGroup
// excludes them.
func (st *State) considers(s *v1alpha1.CatalogSource) bool {
	return s.Namespace == st.Namespace || len(st.OperatorGroups) != 1 || st.OperatorGroups[0].Annotations[withoutGlobal] != "true"
}

// withoutGlobal is the annotation of an OperatorGroup that excludes global catalogs.
const withoutGlobal = "olm.operatorframework.io/exclude-global-namespace-resolution"

// bundle returns a bundle of a catalog, or nil.
func (st *State) bundle(source Source, pkg, name string) *fbc.Bundle {
	c := st.Catalogs[source]
	if c == nil || c.Find(pkg) == nil {
		return nil
	}
	return c.Find(pkg).FindBundle(name)
}

// csv returns a ClusterServiceVersion by name, or nil.
func (st *State) csv(name string) *v1alpha1.ClusterServiceVersion {
	for _, csv := range st.CSVs {
		if csv.Name == name {
			return csv
		}
	}
	return nil
}
