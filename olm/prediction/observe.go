package prediction

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	configclient "github.com/openshift/client-go/config/clientset/versioned/typed/config/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/api/client/clientset/versioned"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/catalog/fbc"
)

// Observe reads the state that OLM resolves from: one State for each namespace with Subscriptions, sorted by name. An empty
// namespace means all. It always reads all namespaces, because operators in one affect what OLM can install in another. It
// does not read catalogs, and writes nothing.
func Observe(ctx context.Context, config *rest.Config, namespace string) ([]*State, error) {
	c, err := readCluster(ctx, config)
	if err != nil {
		return nil, err
	}
	namespaces := map[string]bool{}
	for _, g := range c.groups {
		namespaces[g.Namespace] = true
	}
	for _, s := range c.subscriptions {
		namespaces[s.Namespace] = true
	}
	var all, wanted []*State
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		all = append(all, c.state(name))
	}
	for _, st := range all {
		st.Elsewhere = slices.DeleteFunc(slices.Clone(all), func(other *State) bool { return other == st })
		if len(st.Subscriptions) > 0 && (namespace == "" || st.Namespace == namespace) {
			wanted = append(wanted, st)
		}
	}
	return wanted, nil
}

// clusterObjects holds the objects that Observe reads from a cluster.
type clusterObjects struct {
	subscriptions         []v1alpha1.Subscription
	csvs                  []v1alpha1.ClusterServiceVersion
	installPlans          []v1alpha1.InstallPlan
	groups                []operatorsv1.OperatorGroup
	conditions            []operatorsv2.OperatorCondition
	sources               []v1alpha1.CatalogSource
	kubernetes, openShift *semver.Version
	stored                *apiReader
}

// ErrNoOLM says that a cluster has no OLM v0.
var ErrNoOLM = errors.New("no Operator Lifecycle Manager")

func readCluster(ctx context.Context, config *rest.Config) (*clusterObjects, error) {
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &clusterObjects{}
	if c.stored, err = newAPIReader(config); err != nil {
		return nil, err
	}
	if c.kubernetes, err = kubernetesVersion(client); err != nil {
		return nil, err
	}
	if c.openShift, err = openShiftVersion(ctx, config); err != nil {
		return nil, err
	}
	subscriptions, err := client.OperatorsV1alpha1().Subscriptions("").List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the cluster at %s has %w: it knows no Subscriptions", config.Host, ErrNoOLM)
	} else if err != nil {
		return nil, fmt.Errorf("listing Subscriptions: %w", err)
	}
	csvs, err := client.OperatorsV1alpha1().ClusterServiceVersions("").List(ctx, metav1.ListOptions{LabelSelector: "!" + v1alpha1.CopiedLabelKey})
	if err != nil {
		return nil, fmt.Errorf("listing ClusterServiceVersions: %w", err)
	}
	installPlans, err := client.OperatorsV1alpha1().InstallPlans("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing InstallPlans: %w", err)
	}
	groups, err := client.OperatorsV1().OperatorGroups("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing OperatorGroups: %w", err)
	}
	conditions, err := client.OperatorsV2().OperatorConditions("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing OperatorConditions: %w", err)
	}
	sources, err := client.OperatorsV1alpha1().CatalogSources("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing CatalogSources: %w", err)
	}
	c.subscriptions, c.csvs, c.installPlans, c.groups, c.conditions, c.sources =
		subscriptions.Items, csvs.Items, installPlans.Items, groups.Items, conditions.Items, sources.Items
	return c, nil
}

// state returns the State of a namespace.
func (c *clusterObjects) state(namespace string) *State {
	st := &State{
		Namespace:      namespace,
		Kubernetes:     c.kubernetes,
		OpenShift:      c.openShift,
		Subscriptions:  in[v1alpha1.Subscription](namespace, c.subscriptions),
		CSVs:           in[v1alpha1.ClusterServiceVersion](namespace, c.csvs),
		InstallPlans:   in[v1alpha1.InstallPlan](namespace, c.installPlans),
		OperatorGroups: in[operatorsv1.OperatorGroup](namespace, c.groups),
		Conditions:     in[operatorsv2.OperatorCondition](namespace, c.conditions),
		CatalogSources: in[v1alpha1.CatalogSource](namespace, c.sources),
		Catalogs:       map[Source]*fbc.Catalog{},
		api:            c.stored,
	}
	if global := c.globalNamespace(); global != namespace {
		st.CatalogSources = append(st.CatalogSources, in[v1alpha1.CatalogSource](global, c.sources)...)
	}
	return st
}

// openShiftCatalogs is the namespace of global catalogs on OpenShift.
const openShiftCatalogs = "openshift-marketplace"

// globalNamespace returns the namespace whose catalogs are global. A client cannot read the flag of OLM that sets it. So it
// is OpenShift's namespace if that has catalogs, or else the one in the status of Subscriptions, where OLM lists its
// catalogs. Only OLM and administrators can write that status. It is empty if neither gives one.
func (c *clusterObjects) globalNamespace() string {
	if slices.ContainsFunc(c.sources, func(s v1alpha1.CatalogSource) bool { return s.Namespace == openShiftCatalogs }) {
		return openShiftCatalogs
	}
	for _, s := range c.subscriptions {
		for _, health := range s.Status.CatalogHealth {
			if ref := health.CatalogSourceRef; ref != nil && ref.Namespace != s.Namespace {
				return ref.Namespace
			}
		}
	}
	return ""
}

// openShiftVersion returns the version of OpenShift that the cluster runs or is updating to. It is nil if the cluster does
// not run OpenShift.
func openShiftVersion(ctx context.Context, config *rest.Config) (*semver.Version, error) {
	client, err := configclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	cluster, err := client.ClusterVersions().Get(ctx, "version", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading ClusterVersion version: %w", err)
	}
	version, err := semver.Parse(cluster.Status.Desired.Version)
	if err != nil {
		return nil, fmt.Errorf("ClusterVersion version says that the version is %q: %w", cluster.Status.Desired.Version, err)
	}
	return &version, nil
}

// kubernetesVersion returns the version of the API server.
func kubernetesVersion(client versioned.Interface) (*semver.Version, error) {
	info, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking the API server for its version: %w", err)
	}
	version, err := semver.ParseTolerant(info.GitVersion)
	if err != nil {
		return nil, fmt.Errorf("the API server says that its version is %q: %w", info.GitVersion, err)
	}
	version.Pre, version.Build = nil, nil // OLM also treats 1.30.0-rc.1 as 1.30.0
	return &version, nil
}

// in returns the objects of one namespace, sorted by name.
func in[T any, P interface {
	*T
	metav1.Object
}](namespace string, objects []T) (found []P) {
	for i := range objects {
		if o := P(&objects[i]); o.GetNamespace() == namespace {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b P) int { return strings.Compare(a.GetName(), b.GetName()) })
	return found
}
