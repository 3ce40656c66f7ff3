package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/olm/subscription"
)

// input is the observed state that a plan for a move to OLM v1 is made from. Missing objects are nil.
type input struct {
	request Request
	// served reports whether the cluster has OLM v1.
	served       bool
	namespaceUID types.UID
	// own is the Subscription to move, and twins are all others to its package in any namespace, with only the fields that are needed.
	own   *v1alpha1.Subscription
	twins []v1alpha1.Subscription
	// The next fields are about the Subscription's namespace. versions are not copied from other namespaces, and packages has the package of
	// each version that a Subscription has installed.
	versions     []v1alpha1.ClusterServiceVersion
	packages     map[string]string
	installPlans []v1alpha1.InstallPlan
	groups       []operatorsv1.OperatorGroup
	condition    *operatorsv1.OperatorCondition
	// sourced reports whether the CatalogSource of the Subscription exists.
	sourced bool
	// extensions are all ClusterExtensions, and setsServed reports whether the cluster serves ClusterObjectSets.
	extensions []*unstructured.Unstructured
	setsServed bool
	// bundle is the installed bundle, as OLM v1 reads it. known reports whether all its objects are known.
	bundle *refusal.Bundle
	known  bool
	// offered is the bundle in OLM v1's catalog, or nil if it is unknown.
	offered *refusal.Bundle
	// properties are the properties of the bundle in OLM v1's catalog.
	properties []property.Property
	// present are objects that OLM v1 will make but that exist already, and generated the permissions and certificates made by OLM v0.
	present   []present
	generated []Object
	// now is the prediction of OLM v1's action with exactly the installed version. The field then is the prediction of its action once the
	// move is complete. Both are nil without OLM v1.
	now, then *prediction.Prediction
	// channel is the Subscription's channel or the default channel, and channels are all channels of the package in OLM v1's catalogs.
	channel  string
	channels []string
	// existing are the reasons why OLM v0 could not install the APIs again: objects of the APIs that it cannot read or validate.
	existing []prediction.Reason
	// refusedBy is the API server's error if it refuses the ClusterExtension.
	refusedBy error
}

// present is an object that OLM v1 will make and that exists already.
type present struct {
	Object
	*metav1.PartialObjectMetadata
	// stepped reports whether an InstallPlan has created it.
	stepped bool
}

func (p present) String() string { return p.Object.String() }

// observe reads all that a plan is made from.
func observe(ctx context.Context, cluster migrate.Cluster, r Request) (*input, error) {
	in := &input{request: r}
	if err := in.readSubscriptions(ctx, cluster); err != nil {
		return nil, err
	}
	for _, read := range []func(context.Context, client.Client) error{in.readNamespace, in.readSource, in.readExtensions, in.readBundle, in.readGenerated} {
		if err := read(ctx, cluster.Client); err != nil {
			return nil, err
		}
	}
	if err := in.readPackages(ctx, cluster); err != nil {
		return nil, err
	}
	v := in.version()
	if v == nil {
		return in, nil
	}
	var apis []string
	for _, owned := range v.Spec.CustomResourceDefinitions.Owned {
		apis = append(apis, owned.Name)
	}
	slices.Sort(apis)
	var err error
	if in.existing, err = prediction.Objects(ctx, cluster.Config, v.Name, slices.Compact(apis)); err != nil || !in.served {
		return in, err
	}
	return in, in.predict(ctx, cluster)
}

// readSubscriptions reads the Subscriptions to the package. Any user may write any number of Subscriptions, as large as the API server
// accepts, so only one at a time is in memory.
func (in *input) readSubscriptions(ctx context.Context, cluster migrate.Cluster) error {
	c, err := subscription.Client(cluster.Config)
	if err != nil {
		return err
	}
	var found []v1alpha1.Subscription
	err = subscription.Each(ctx, c, "", func(s v1alpha1.Subscription) error {
		if s.Spec != nil && s.Spec.Package == in.request.Package {
			found = append(found, kept(s))
		}
		return nil
	})
	if apierrors.IsNotFound(err) {
		return errors.New("the cluster has no OLM v0: it does not serve Subscriptions")
	}
	if err != nil {
		return err
	}
	if in.own, in.twins, err = in.request.choose(found); err != nil {
		return err
	}
	own := &v1alpha1.Subscription{}
	exists, err := migrate.Find(ctx, cluster.Client, own, in.own.Namespace, in.own.Name)
	if err == nil && (!exists || own.UID != in.own.UID || own.Spec == nil) {
		return fmt.Errorf("somebody has just deleted Subscription %s/%s: make the plan again", in.own.Namespace, in.own.Name)
	}
	in.own = own
	return err
}

// kept returns the parts of a Subscription to the package that are needed to find the Subscription to move.
func kept(s v1alpha1.Subscription) v1alpha1.Subscription {
	return v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID},
		Spec: &v1alpha1.SubscriptionSpec{Package: s.Spec.Package}, Status: v1alpha1.SubscriptionStatus{InstalledCSV: s.Status.InstalledCSV}}
}

// choose returns the requested Subscription, and the other Subscriptions to the package.
func (r Request) choose(all []v1alpha1.Subscription) (own *v1alpha1.Subscription, twins []v1alpha1.Subscription, err error) {
	var names []string
	for i, s := range all {
		if r.Namespace != "" && s.Namespace != r.Namespace {
			continue
		}
		names = append(names, s.Namespace+"/"+s.Name)
		switch {
		case own == nil, own.Status.InstalledCSV == "" && s.Status.InstalledCSV != "" && own.Namespace == s.Namespace:
			own = &all[i]
		case own.Namespace != s.Namespace:
			return nil, nil, fmt.Errorf("there are several Subscriptions to package %s: %s; choose one with --namespace", r.Package, strings.Join(names, ", "))
		}
	}
	if own == nil {
		return nil, nil, fmt.Errorf("there is no Subscription to %s", r)
	}
	for _, s := range all {
		if s.UID != own.UID {
			twins = append(twins, s)
		}
	}
	return own, twins, nil
}

func (in *input) readNamespace(ctx context.Context, c client.Client) (err error) {
	namespace := in.own.Namespace
	if in.namespaceUID, err = migrate.NamespaceUID(ctx, c, namespace); err != nil {
		return err
	}
	versions, installPlans, groups := &v1alpha1.ClusterServiceVersionList{}, &v1alpha1.InstallPlanList{}, &operatorsv1.OperatorGroupList{}
	for _, list := range []client.ObjectList{versions, installPlans, groups} {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("listing the objects of OLM in namespace %s: %w", namespace, err)
		}
	}
	in.versions = slices.DeleteFunc(versions.Items, func(v v1alpha1.ClusterServiceVersion) bool { return v.IsCopied() })
	in.installPlans, in.groups = installPlans.Items, groups.Items
	if in.own.Status.InstalledCSV == "" { // a check says so
		return nil
	}
	condition := &operatorsv1.OperatorCondition{}
	found, err := migrate.Find(ctx, c, condition, namespace, in.own.Status.InstalledCSV)
	if err != nil {
		return fmt.Errorf("reading OperatorCondition %s/%s: %w", namespace, in.own.Status.InstalledCSV, err)
	}
	if found {
		in.condition = condition
	}
	return nil
}

// readPackages reads the packages of the versions that Subscriptions of the namespace have installed.
func (in *input) readPackages(ctx context.Context, cluster migrate.Cluster) error {
	c, err := subscription.Client(cluster.Config)
	if err != nil {
		return err
	}
	in.packages = map[string]string{}
	return subscription.Each(ctx, c, in.own.Namespace, func(s v1alpha1.Subscription) error {
		if slices.ContainsFunc(in.versions, func(v v1alpha1.ClusterServiceVersion) bool { return v.Name == s.Status.InstalledCSV }) && s.Spec != nil {
			in.packages[s.Status.InstalledCSV] = s.Spec.Package
		}
		return nil
	})
}

// readSource reads whether the CatalogSource of the Subscription exists.
func (in *input) readSource(ctx context.Context, c client.Client) (err error) {
	spec := in.own.Spec
	if in.sourced, err = migrate.Find(ctx, c, &v1alpha1.CatalogSource{}, spec.CatalogSourceNamespace, spec.CatalogSource); err != nil {
		return fmt.Errorf("reading CatalogSource %s/%s: %w", spec.CatalogSourceNamespace, spec.CatalogSource, err)
	}
	return nil
}

// version returns the ClusterServiceVersion of the Subscription, or nil if it does not exist.
func (in *input) version() *v1alpha1.ClusterServiceVersion {
	at := slices.IndexFunc(in.versions, func(v v1alpha1.ClusterServiceVersion) bool { return v.Name == in.own.Status.InstalledCSV })
	if at < 0 {
		return nil
	}
	return &in.versions[at]
}

func (in *input) readExtensions(ctx context.Context, c client.Client) (err error) {
	if _, err := c.RESTMapper().RESTMapping(clusterextension.Kind.GroupKind(), clusterextension.Kind.Version); meta.IsNoMatchError(err) {
		return nil
	} else if err != nil {
		return err
	}
	in.served = true
	_, err = c.RESTMapper().RESTMapping(objectSetKind.GroupKind(), objectSetKind.Version)
	if in.setsServed = err == nil; err != nil && !meta.IsNoMatchError(err) {
		return err
	}
	in.extensions, err = clusterextension.List(ctx, c)
	return err
}

// predict predicts OLM v1's actions with the installed version and later, and asks the API server whether it accepts
// the ClusterExtension.
func (in *input) predict(ctx context.Context, cluster migrate.Cluster) (err error) {
	catalogs, done, err := in.request.Catalogs(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	live, err := prediction.ClusterOf(cluster.Config)
	if err != nil {
		return err
	}
	if err := in.readOffered(ctx, catalogs); err != nil {
		return err
	}
	if err := in.readPresent(ctx, cluster.Client); err != nil {
		return err
	}
	e := in.extension()
	e.Cluster = &marked{live, in}
	e.Content = in.content
	if in.now, err = e.PredictFrom(ctx, catalogs); err != nil {
		return err
	}
	in.readChannels(catalogs)
	if in.then, err = in.loosened(e).PredictFrom(ctx, catalogs); err != nil {
		return err
	}
	in.refusedBy = client.NewDryRunClient(cluster.Client).Create(ctx, in.plan().extension())
	if apierrors.IsAlreadyExists(in.refusedBy) { // a check refuses it
		in.refusedBy = nil
	}
	return nil
}
