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
	"github.com/berth-csi/berth/internal/listing"
	"github.com/berth-csi/berth/olm/subscription"
)

// Observe reads the state that OLM resolves from: one State for each namespace with Subscriptions, sorted by name. An empty namespace means
// all. It always reads all namespaces, because operators in one namespace affect what OLM can install in another. It does not read
// catalogs, and writes nothing.
//
// Its memory does not grow with the size of objects, which tenants can write: it reads objects one at a time, and keeps only the fields
// that a prediction needs; of objects in namespaces that were not asked for, even fewer.
func Observe(ctx context.Context, config *rest.Config, namespace string) ([]*State, error) {
	c, err := readCluster(ctx, config, namespace)
	if err != nil {
		return nil, err
	}
	return c.states(namespace), nil
}

// states returns the States of the namespaces with Subscriptions.
func (c *clusterObjects) states(namespace string) (wanted []*State) {
	namespaces := map[string]*namespaceObjects{}
	of := func(namespace string) *namespaceObjects {
		if namespaces[namespace] == nil {
			namespaces[namespace] = &namespaceObjects{}
		}
		return namespaces[namespace]
	}
	for i, o := range c.subscriptions {
		of(o.Namespace).subscriptions = append(of(o.Namespace).subscriptions, &c.subscriptions[i])
	}
	for i, o := range c.csvs {
		of(o.Namespace).csvs = append(of(o.Namespace).csvs, &c.csvs[i])
	}
	for i, o := range c.installPlans {
		of(o.Namespace).installPlans = append(of(o.Namespace).installPlans, &c.installPlans[i])
	}
	for i, o := range c.groups {
		of(o.Namespace).groups = append(of(o.Namespace).groups, &c.groups[i])
	}
	for i, o := range c.conditions {
		of(o.Namespace).conditions = append(of(o.Namespace).conditions, &c.conditions[i])
	}
	for i, o := range c.sources {
		of(o.Namespace).sources = append(of(o.Namespace).sources, &c.sources[i])
	}
	global := c.globalNamespace()
	var withGroup []*State // tenants cannot create OperatorGroups, so their namespaces do not make this slice longer
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		objects := namespaces[name]
		if len(objects.groups) == 0 && len(objects.subscriptions) == 0 {
			continue
		}
		st := &State{
			Namespace: name, Kubernetes: c.kubernetes, OpenShift: c.openShift,
			Subscriptions: sorted(objects.subscriptions), CSVs: sorted(objects.csvs), InstallPlans: sorted(objects.installPlans),
			OperatorGroups: sorted(objects.groups), Conditions: sorted(objects.conditions), CatalogSources: sorted(objects.sources),
			Catalogs: map[Source]*fbc.Catalog{}, api: c.stored,
		}
		if global != name && namespaces[global] != nil {
			st.CatalogSources = append(st.CatalogSources, sorted(namespaces[global].sources)...)
		}
		if len(st.OperatorGroups) > 0 {
			withGroup = append(withGroup, st)
		}
		if len(st.Subscriptions) > 0 && (namespace == "" || name == namespace) {
			wanted = append(wanted, st)
		}
	}
	for _, st := range wanted {
		st.WithGroup = withGroup
	}
	return wanted
}

// namespaceObjects are the objects of one namespace.
type namespaceObjects struct {
	subscriptions []*v1alpha1.Subscription
	csvs          []*v1alpha1.ClusterServiceVersion
	installPlans  []*v1alpha1.InstallPlan
	groups        []*operatorsv1.OperatorGroup
	conditions    []*operatorsv2.OperatorCondition
	sources       []*v1alpha1.CatalogSource
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

func readCluster(ctx context.Context, config *rest.Config, namespace string) (*clusterObjects, error) {
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
	v1, v1alpha1Client, v2 := client.OperatorsV1().RESTClient(), client.OperatorsV1alpha1().RESTClient(), client.OperatorsV2().RESTClient()
	k := keeper{namespace}
	err = subscription.Each(ctx, v1alpha1Client, "", func(s v1alpha1.Subscription) error {
		c.subscriptions = append(c.subscriptions, k.subscription(&s))
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the cluster at %s has %w: it knows no Subscriptions", config.Host, ErrNoOLM)
	} else if err != nil {
		return nil, err
	}
	if err := errors.Join(
		collect(ctx, v1alpha1Client, listing.List{Resource: "clusterserviceversions", Labels: "!" + v1alpha1.CopiedLabelKey}, k.csv, &c.csvs),
		collect(ctx, v1alpha1Client, listing.List{Resource: "installplans"}, k.installPlan, &c.installPlans),
		collect(ctx, v1, listing.List{Resource: "operatorgroups"}, k.operatorGroup, &c.groups),
		collect(ctx, v2, listing.List{Resource: "operatorconditions"}, k.condition, &c.conditions),
		collect(ctx, v1alpha1Client, listing.List{Resource: "catalogsources"}, k.source, &c.sources),
	); err != nil {
		return nil, err
	}
	return c, nil
}

// collect reads a list, and appends what keep returns for each object.
func collect[T any](ctx context.Context, client rest.Interface, list listing.List, keep func(*T) T, into *[]T) error {
	return listing.Each(ctx, client, list, func(o T) error {
		*into = append(*into, keep(&o))
		return nil
	})
}

// openShiftCatalogs is the namespace of global catalogs on OpenShift.
const openShiftCatalogs = "openshift-marketplace"

// globalNamespace returns the namespace whose catalogs are global. A client cannot read the flag of OLM that sets it. So it returns
// OpenShift's namespace if that has catalogs, or else another namespace that a Subscription names in its status, where OLM lists its
// catalogs. Only OLM and administrators can write that status. It returns "" if there is no such namespace.
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

// sorted sorts objects of one namespace by name.
func sorted[P metav1.Object](objects []P) []P {
	slices.SortFunc(objects, func(a, b P) int { return strings.Compare(a.GetName(), b.GetName()) })
	return objects
}
