package switchover

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/plan"
	"github.com/berth-csi/berth/catalog/remote"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
)

// Cluster is how to reach a cluster.
type Cluster struct {
	Config *rest.Config
	Client client.Client
}

// World is what a plan is made from. It has to be closed.
type World struct {
	*plan.World
	subscription *v1alpha1.Subscription
	target       plan.Source
	// unread says why catalogs of other Subscriptions could not be read.
	unread []string
	driver *seenDriver
	read   []*remote.Catalog
}

// seenDriver is the CSI driver of the operator, as it is in the cluster.
type seenDriver struct {
	drivers.Driver
	daemonSets []string // the names of those that it runs by
	found      []*unstructured.Unstructured
	// custom tells whether there is a ClusterCSIDriver.
	custom bool
}

// Look reads all that a plan is made from. It writes nothing to the cluster.
func Look(ctx context.Context, cluster Cluster, r Request) (*World, error) {
	namespaces, err := plan.Observe(ctx, cluster.Config, r.Namespace)
	if err != nil {
		return nil, err
	}
	w, err := choose(namespaces, r)
	if err != nil {
		return nil, err
	}
	if err := w.readCatalogs(ctx, cluster.Config, r); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if err := w.readDriver(ctx, cluster.Client, r); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close gives up what was read of catalogs.
func (w *World) Close() error {
	var faults []error
	for _, read := range w.read {
		faults = append(faults, read.Close())
	}
	return errors.Join(faults...)
}

// choose finds the Subscription that is asked for.
func choose(namespaces []*plan.World, r Request) (*World, error) {
	var found []*World
	for _, pkg := range []string{r.Package, r.NewPackage} { // by the new name if all is done
		for _, w := range namespaces {
			if s := subscriptionTo(w, pkg); s != nil {
				found = append(found, &World{World: w, subscription: s})
			}
		}
		if len(found) > 0 {
			break
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("there is no Subscription to package %s%s", r.Package, inNamespace(r.Namespace))
	case 1:
		to := r.choice(found[0].subscription.Spec)
		found[0].target = plan.Source{Namespace: to.SourceNamespace, Name: to.Source}
		return found[0], nil
	}
	return nil, fmt.Errorf("there are Subscriptions to package %s in namespaces %s and %s: name one with --namespace", r.Package, found[0].Namespace, found[1].Namespace)
}

// subscriptionTo returns the Subscription of a namespace to a package, or nil. Of several, it is the one that
// has installed something.
func subscriptionTo(w *plan.World, pkg string) (found *v1alpha1.Subscription) {
	for _, s := range w.Subscriptions {
		if s.Spec.Package == pkg && (found == nil || found.Status.InstalledCSV == "" && s.Status.InstalledCSV != "") {
			found = s
		}
	}
	return found
}

// readCatalogs reads the catalog to switch to, and those of other Subscriptions: OLM decides for all together.
func (w *World) readCatalogs(ctx context.Context, config *rest.Config, r Request) error {
	wanted := []plan.Source{w.target}
	for _, s := range w.Subscriptions {
		if source := (plan.Source{Namespace: s.Spec.CatalogSourceNamespace, Name: s.Spec.CatalogSource}); s != w.subscription && !slices.Contains(wanted, source) {
			wanted = append(wanted, source)
		}
	}
	for _, source := range wanted {
		at := slices.IndexFunc(w.CatalogSources, func(c *v1alpha1.CatalogSource) bool { return c.Namespace == source.Namespace && c.Name == source.Name })
		if at < 0 {
			continue // OLM has no such one either
		}
		read, err := remote.Read(ctx, config, w.CatalogSources[at], r.choice(w.subscription.Spec).Package)
		switch {
		case err == nil:
			w.Catalogs[source] = read.Catalog
			w.read = append(w.read, read)
		case source == w.target && connected(w.CatalogSources[at]):
			return err
		case source != w.target: // else OLM does not reach it either
			w.unread = append(w.unread, err.Error())
		}
	}
	return nil
}

// connected tells whether OLM has a connection to a catalog.
func connected(c *v1alpha1.CatalogSource) bool {
	return c.Status.GRPCConnectionState != nil && c.Status.GRPCConnectionState.LastObservedState == "READY"
}

// readDriver finds the driver that the operator is for, and what there is of it.
func (w *World) readDriver(ctx context.Context, c client.Client, r Request) error {
	all := registry.All()
	at := slices.IndexFunc(all, func(d drivers.Driver) bool { return d.Package.Name == r.Package || d.Package.Name == r.NewPackage })
	if at < 0 {
		if r.CreateDriver {
			return fmt.Errorf("no driver is known whose operator is package %s: leave --create-driver away, and create its ClusterCSIDriver by hand", r.Package)
		}
		return nil
	}
	d := &seenDriver{Driver: all[at]}
	w.driver = d
	manifests, err := d.Operand(drivers.Values{Namespace: w.Namespace, Image: func(env string) string { return env }})
	if err != nil {
		return err
	}
	for _, m := range drivers.OfKind(manifests, "DaemonSet") {
		d.daemonSets = append(d.daemonSets, m.Object.GetName())
	}
	in, err := d.namespace(ctx, c, w.Namespace)
	if err != nil {
		return err
	}
	for _, m := range manifests {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(m.Object.GroupVersionKind())
		namespace := m.Object.GetNamespace()
		if namespace == w.Namespace {
			namespace = in
		}
		found, err := find(ctx, c, live, namespace, m.Object.GetName())
		if err != nil {
			return fmt.Errorf("looking for %s %s of driver %s: %w", m.Object.GetKind(), m.Object.GetName(), d.CSIName, err)
		}
		if found {
			d.found = append(d.found, live)
		}
	}
	d.custom, err = find(ctx, c, &operatorv1.ClusterCSIDriver{}, "", d.CSIName)
	return err
}

// namespace returns the namespace that the driver is in: that of its DaemonSet, or else the operator's.
func (d *seenDriver) namespace(ctx context.Context, c client.Client, operators string) (string, error) {
	for _, name := range d.daemonSets {
		list := &appsv1.DaemonSetList{}
		if err := c.List(ctx, list, client.MatchingFields{metav1.ObjectNameField: name}); err != nil {
			return "", fmt.Errorf("looking for DaemonSet %s: %w", name, err)
		}
		if len(list.Items) > 0 && !slices.ContainsFunc(list.Items, func(set appsv1.DaemonSet) bool { return set.Namespace == operators }) {
			return list.Items[0].Namespace, nil
		}
	}
	return operators, nil
}
