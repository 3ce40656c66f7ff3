package subscription

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

	"github.com/berth-csi/berth/catalog/fbc/remote"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/catalogsource"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/prediction"
)

// input is the observed state that a plan is made from.
type input struct {
	*prediction.State
	subscription *v1alpha1.Subscription
	namespaceUID types.UID
	target       prediction.Source
	// unread says why catalogs of other Subscriptions could not be read.
	unread []string
	driver *observedDriver
}

// observedDriver is the CSI driver of the operator, as the cluster shows it.
type observedDriver struct {
	drivers.Driver
	daemonSets []string                     // the names of its DaemonSets
	objects    []*unstructured.Unstructured // the existing objects of the driver
	// podChanges are the changes that an adoption makes to the driver's pods and that may affect mounts.
	podChanges []string
	// placed says which namespace the driver is in.
	placed placement.Decision
	// managed reports whether there is a ClusterCSIDriver.
	managed bool
	// monitored reports whether the cluster's monitoring reads metrics in the operator's namespace.
	monitored bool
}

// observe reads all that a plan is made from.
func observe(ctx context.Context, cluster migrate.Cluster, r Request) (*input, error) {
	namespaces, err := prediction.Observe(ctx, cluster.Config, r.Namespace)
	if err != nil {
		return nil, err
	}
	in, err := selectSubscription(namespaces, r)
	if err != nil {
		return nil, err
	}
	if in == nil {
		return nil, withoutSubscription(ctx, cluster.Client, r)
	}
	if err := in.readSubscription(ctx, cluster.Client); err != nil {
		return nil, err
	}
	if in.namespaceUID, err = migrate.NamespaceUID(ctx, cluster.Client, in.Namespace); err != nil {
		return nil, err
	}
	if err := in.readCatalogs(ctx, cluster.Config, r); err != nil {
		return nil, err
	}
	if err := in.readDriver(ctx, cluster.Client, r); err != nil {
		return nil, err
	}
	return in, nil
}

// readSubscription reads the whole Subscription: predictions keep only a part of each Subscription, because there may be many.
func (in *input) readSubscription(ctx context.Context, c client.Client) error {
	s, whole := in.subscription, &v1alpha1.Subscription{}
	found, err := migrate.Find(ctx, c, whole, s.Namespace, s.Name)
	if err != nil {
		return fmt.Errorf("reading Subscription %s/%s: %w", s.Namespace, s.Name, err)
	}
	if !found || whole.UID != s.UID || whole.Spec == nil {
		return fmt.Errorf("somebody has deleted or replaced Subscription %s/%s while the cluster was read: want the one with UID %s; run the command again", s.Namespace, s.Name, s.UID)
	}
	if whole.Generation != s.Generation {
		return fmt.Errorf("the spec of Subscription %s/%s was changed while the cluster was read; run the command again", s.Namespace, s.Name)
	}
	health := whole.Status.CatalogHealth
	whole.Status = s.Status // the older status, which fits the versions and InstallPlans that were read after it
	whole.Status.CatalogHealth = health
	*s = *whole
	return nil
}

// withoutSubscription returns the error for a missing Subscription. It names OLM v1's installation of the package, if there is one.
func withoutSubscription(ctx context.Context, c client.Client, r Request) error {
	found, err := clusterextension.OfPackage(ctx, c, r.Package)
	if err != nil {
		return fmt.Errorf("there is no Subscription to %s, and it is not known whether OLM v1 has installed the package: %w", r, err)
	}
	if len(found) == 0 {
		return fmt.Errorf("there is no Subscription to %s", r)
	}
	return fmt.Errorf("there is no Subscription to %s: OLM v1 has installed the package, for ClusterExtension %s, which needs no switch: "+
		"to take it from another catalog, set spec.source.catalog.selector there", r, found[0].GetName())
}

// selectSubscription finds the requested Subscription by the present name of the package, or by its new name if the switch is complete. It
// returns nil if there is none, and fails if several namespaces have one: anyone who may create Subscriptions in some namespace could have
// created the other one.
func selectSubscription(namespaces []*prediction.State, r Request) (*input, error) {
	var found []*input
	var names []string
	for _, namespace := range namespaces {
		s := subscriptionTo(namespace, r.Package)
		if s == nil && r.NewPackage != "" {
			s = subscriptionTo(namespace, r.NewPackage)
		}
		if s != nil {
			found = append(found, &input{State: namespace, subscription: s})
			names = append(names, fmt.Sprintf("%s/%s to package %s", s.Namespace, s.Name, s.Spec.Package))
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		to := r.choice(found[0].subscription.Spec)
		found[0].target = prediction.Source{Namespace: to.SourceNamespace, Name: to.Source}
		return found[0], nil
	}
	return nil, fmt.Errorf("%d Subscriptions match %s: %s; choose one with --namespace", len(found), r, strings.Join(names, ", "))
}

// subscriptionTo returns the Subscription of a namespace to a package, or nil. If there are several, one that has
// installed something is preferred.
func subscriptionTo(w *prediction.State, pkg string) (found *v1alpha1.Subscription) {
	for _, s := range w.Subscriptions {
		if s.Spec.Package == pkg && (found == nil || found.Status.InstalledCSV == "" && s.Status.InstalledCSV != "") {
			found = s
		}
	}
	return found
}

// readCatalogs reads the catalog to switch to, and the catalogs of other Subscriptions, because OLM resolves them
// together.
func (in *input) readCatalogs(ctx context.Context, config *rest.Config, r Request) error {
	sources := []prediction.Source{in.target}
	for _, s := range in.Subscriptions {
		if source := (prediction.Source{Namespace: s.Spec.CatalogSourceNamespace, Name: s.Spec.CatalogSource}); s != in.subscription && !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	for _, source := range sources {
		at := slices.IndexFunc(in.CatalogSources, func(c *v1alpha1.CatalogSource) bool { return c.Namespace == source.Namespace && c.Name == source.Name })
		if at < 0 {
			continue // OLM has no catalog either
		}
		read, err := remote.Read(ctx, config, in.CatalogSources[at], in.packagesOf(source, r)...)
		switch {
		case err == nil:
			in.Catalogs[source] = read
		case source != in.target:
			in.unread = append(in.unread, err.Error())
		case catalogsource.Reachable(in.CatalogSources[at]): // otherwise OLM cannot reach it either, which the prediction says
			return err
		}
	}
	return nil
}

// packagesOf returns the packages that Subscriptions will take from a catalog after the switch.
func (in *input) packagesOf(source prediction.Source, r Request) (names []string) {
	for _, s := range in.Subscriptions {
		choice := choiceOf(s.Spec)
		if s == in.subscription {
			choice = r.choice(s.Spec)
		}
		if choice.Source == source.Name && choice.SourceNamespace == source.Namespace {
			names = append(names, choice.Package)
		}
	}
	return names
}

// readDriver reads the driver of the operator.
func (in *input) readDriver(ctx context.Context, c client.Client, r Request) error {
	defined, found := driverOf(r.Package, r.NewPackage)
	if !found {
		if r.CreateDriver {
			return fmt.Errorf("no known driver has its operator in package %s: omit --create-driver, and create the ClusterCSIDriver yourself", r.Package)
		}
		return nil
	}
	d := &observedDriver{Driver: defined}
	in.driver = d
	manifests, err := operand(defined, in.Namespace)
	if err != nil {
		return err
	}
	if d.daemonSets, err = daemonSetsOf(defined, in.Namespace); err != nil {
		return err
	}
	custom := &operatorv1.ClusterCSIDriver{}
	if d.managed, err = migrate.Find(ctx, c, custom, "", d.CSIName); err != nil {
		return err
	}
	operator := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	if _, err := migrate.Find(ctx, c, operator, "", in.Namespace); err != nil {
		return fmt.Errorf("reading Namespace %s: %w", in.Namespace, err)
	}
	d.monitored = operator.Labels[drivers.MonitoringLabel] == "true"
	if d.placed, err = place(ctx, c, defined, in.Namespace, custom); err != nil {
		return err
	}
	for _, m := range manifests {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(m.Object.GroupVersionKind())
		namespace := m.Object.GetNamespace()
		if namespace == in.Namespace {
			if d.placed.Refusal != nil {
				continue // its namespace is unknown
			}
			namespace = d.placed.Namespace
		}
		found, err := migrate.Find(ctx, c, live, namespace, m.Object.GetName())
		if err != nil {
			return fmt.Errorf("looking for %s %s of driver %s: %w", m.Object.GetKind(), m.Object.GetName(), d.CSIName, err)
		}
		if found {
			d.objects = append(d.objects, live)
			d.podChanges = append(d.podChanges, changesOfPods(live, manifests, dnsPolicyOf(in.subscription))...)
		}
	}
	return nil
}

// place decides which namespace a driver is in, by cluster-scoped objects. custom is its ClusterCSIDriver, without a
// name if it does not exist.
func place(ctx context.Context, c client.Client, d drivers.Driver, operator string, custom *operatorv1.ClusterCSIDriver) (placement.Decision, error) {
	var metadata *metav1.ObjectMeta
	if custom.Name != "" {
		metadata = &custom.ObjectMeta
	}
	observed, err := placement.Observe(ctx, c, d, operator, metadata)
	if err != nil {
		return placement.Decision{}, fmt.Errorf("locating driver %s: %w", d.CSIName, err)
	}
	return placement.Decide(d, observed), nil
}

// operand returns the objects of a driver.
func operand(d drivers.Driver, namespace string) ([]drivers.Manifest, error) {
	return d.Operand(drivers.Values{Namespace: namespace, Image: func(env string) string { return env }})
}

// daemonSetsOf returns the names of the DaemonSets of a driver.
func daemonSetsOf(d drivers.Driver, namespace string) (names []string, err error) {
	manifests, err := operand(d, namespace)
	for _, m := range drivers.OfKind(manifests, "DaemonSet") {
		names = append(names, m.Object.GetName())
	}
	return names, err
}
