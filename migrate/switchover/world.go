package switchover

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/fbc/remote"
	"github.com/berth-csi/berth/olm/catalogsource"
	"github.com/berth-csi/berth/olm/prediction"
)

// Cluster is how to reach a cluster.
type Cluster struct {
	Config *rest.Config
	Client client.Client
	// JournalNamespace is where journals are looked for and written. Whoever can write there decides what a switch
	// does. Empty stands for DefaultJournalNamespace.
	JournalNamespace string
	// Warn, if it is there, is told what is ignored in that namespace, and why.
	Warn func(string)
}

// World is what a plan is made from.
type World struct {
	*prediction.State
	subscription *v1alpha1.Subscription
	namespaceUID types.UID
	journals     string // the namespace of journals
	target       prediction.Source
	// unread says why catalogs of other Subscriptions could not be read.
	unread []string
	driver *seenDriver
}

// seenDriver is the CSI driver of the operator, as it is in the cluster.
type seenDriver struct {
	drivers.Driver
	daemonSets []string // the names of those that it runs by
	found      []*unstructured.Unstructured
	// placed says in which namespace it is.
	placed placement.Decision
	// custom tells whether there is a ClusterCSIDriver.
	custom bool
}

// Look reads all that a plan is made from. It writes nothing to the cluster.
func Look(ctx context.Context, cluster Cluster, r Request) (*World, error) {
	namespaces, err := prediction.Observe(ctx, cluster.Config, r.Namespace)
	if err != nil {
		return nil, err
	}
	w, err := choose(namespaces, r)
	if err != nil {
		return nil, err
	}
	if w.namespaceUID, err = readNamespaceUID(ctx, cluster.Client, w.Namespace); err != nil {
		return nil, err
	}
	w.journals = cluster.journals()
	if err := w.readCatalogs(ctx, cluster.Config, r); err != nil {
		return nil, err
	}
	if err := w.readDriver(ctx, cluster.Client, r); err != nil {
		return nil, err
	}
	return w, nil
}

// readNamespaceUID reads the UID of a namespace. It is empty if there is none.
func readNamespaceUID(ctx context.Context, c client.Client, name string) (types.UID, error) {
	namespace := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	if _, err := find(ctx, c, namespace, "", name); err != nil {
		return "", fmt.Errorf("reading Namespace %s: %w", name, err)
	}
	return namespace.UID, nil
}

// choose finds the Subscription that is asked for, by the name that the package has now, or by the new one if all is
// done. One of either name in another namespace leaves open which is meant: whoever may make Subscriptions in some
// namespace can have put it there.
func choose(namespaces []*prediction.State, r Request) (*World, error) {
	var found []*World
	var names []string
	for _, w := range namespaces {
		s := subscriptionTo(w, r.Package)
		if s == nil && r.NewPackage != "" {
			s = subscriptionTo(w, r.NewPackage)
		}
		if s != nil {
			found = append(found, &World{State: w, subscription: s})
			names = append(names, fmt.Sprintf("%s/%s to package %s", s.Namespace, s.Name, s.Spec.Package))
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("there is no Subscription to package %s%s", r.Package, inNamespace(r.Namespace))
	case 1:
		to := r.choice(found[0].subscription.Spec)
		found[0].target = prediction.Source{Namespace: to.SourceNamespace, Name: to.Source}
		return found[0], nil
	}
	return nil, fmt.Errorf("%d Subscriptions may be meant: %s; say with --namespace in which namespace the one to switch is", len(found), strings.Join(names, ", "))
}

// subscriptionTo returns the Subscription of a namespace to a package, or nil. Of several, it is the one that
// has installed something.
func subscriptionTo(w *prediction.State, pkg string) (found *v1alpha1.Subscription) {
	for _, s := range w.Subscriptions {
		if s.Spec.Package == pkg && (found == nil || found.Status.InstalledCSV == "" && s.Status.InstalledCSV != "") {
			found = s
		}
	}
	return found
}

// readCatalogs reads the catalog to switch to, and those of other Subscriptions: OLM decides for all together.
func (w *World) readCatalogs(ctx context.Context, config *rest.Config, r Request) error {
	wanted := []prediction.Source{w.target}
	for _, s := range w.Subscriptions {
		if source := (prediction.Source{Namespace: s.Spec.CatalogSourceNamespace, Name: s.Spec.CatalogSource}); s != w.subscription && !slices.Contains(wanted, source) {
			wanted = append(wanted, source)
		}
	}
	for _, source := range wanted {
		at := slices.IndexFunc(w.CatalogSources, func(c *v1alpha1.CatalogSource) bool { return c.Namespace == source.Namespace && c.Name == source.Name })
		if at < 0 {
			continue // OLM has no such one either
		}
		read, err := remote.Read(ctx, config, w.CatalogSources[at], w.packagesOf(source, r)...)
		switch {
		case err == nil:
			w.Catalogs[source] = read
		case source == w.target && catalogsource.Reachable(w.CatalogSources[at]):
			return err
		case source != w.target: // else OLM does not reach it either
			w.unread = append(w.unread, err.Error())
		}
	}
	return nil
}

// packagesOf returns the packages that Subscriptions will have from a catalog.
func (w *World) packagesOf(source prediction.Source, r Request) (names []string) {
	for _, s := range w.Subscriptions {
		choice := choiceOf(s.Spec)
		if s == w.subscription {
			choice = r.choice(s.Spec)
		}
		if choice.Source == source.Name && choice.SourceNamespace == source.Namespace {
			names = append(names, choice.Package)
		}
	}
	return names
}

// readDriver finds the driver that the operator is for, and what there is of it.
func (w *World) readDriver(ctx context.Context, c client.Client, r Request) error {
	defined, found := driverOf(r.Package, r.NewPackage)
	if !found {
		if r.CreateDriver {
			return fmt.Errorf("no driver is known whose operator is package %s: leave --create-driver away, and create its ClusterCSIDriver by hand", r.Package)
		}
		return nil
	}
	d := &seenDriver{Driver: defined}
	w.driver = d
	manifests, err := operand(defined, w.Namespace)
	if err != nil {
		return err
	}
	if d.daemonSets, err = daemonSetsOf(defined, w.Namespace); err != nil {
		return err
	}
	custom := &operatorv1.ClusterCSIDriver{}
	if d.custom, err = find(ctx, c, custom, "", d.CSIName); err != nil {
		return err
	}
	if d.placed, err = place(ctx, c, defined, w.Namespace, custom); err != nil {
		return err
	}
	for _, m := range manifests {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(m.Object.GroupVersionKind())
		namespace := m.Object.GetNamespace()
		if namespace == w.Namespace {
			if d.placed.Refusal != nil {
				continue // nobody can tell where it is
			}
			namespace = d.placed.Namespace
		}
		found, err := find(ctx, c, live, namespace, m.Object.GetName())
		if err != nil {
			return fmt.Errorf("looking for %s %s of driver %s: %w", m.Object.GetKind(), m.Object.GetName(), d.CSIName, err)
		}
		if found {
			d.found = append(d.found, live)
		}
	}
	return nil
}

// place decides by cluster-scoped objects in which namespace a driver is. custom is its ClusterCSIDriver, without a
// name if there is none.
func place(ctx context.Context, c client.Client, d drivers.Driver, operator string, custom *operatorv1.ClusterCSIDriver) (placement.Decision, error) {
	var metadata *metav1.ObjectMeta
	if custom.Name != "" {
		metadata = &custom.ObjectMeta
	}
	observed, err := placement.Observe(ctx, c, d, operator, metadata)
	if err != nil {
		return placement.Decision{}, fmt.Errorf("finding out where driver %s is: %w", d.CSIName, err)
	}
	return placement.Decide(d, observed), nil
}

// operand returns the objects that a driver consists of.
func operand(d drivers.Driver, namespace string) ([]drivers.Manifest, error) {
	return d.Operand(drivers.Values{Namespace: namespace, Image: func(env string) string { return env }})
}

// daemonSetsOf returns the names of the DaemonSets that a driver runs by.
func daemonSetsOf(d drivers.Driver, namespace string) (names []string, err error) {
	manifests, err := operand(d, namespace)
	for _, m := range drivers.OfKind(manifests, "DaemonSet") {
		names = append(names, m.Object.GetName())
	}
	return names, err
}
