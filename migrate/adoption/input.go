package adoption

import (
	"context"
	"fmt"
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/subscription"
)

// input is the observed state that a plan is made from. Missing objects are nil.
type input struct {
	driver drivers.Driver
	// proven are the operators to which OLM has given permissions. Only OLM and administrators can give such permissions.
	proven []predecessor.Operator
	// started reports whether the cluster storage operator has started its operator of the driver.
	started bool
	// subscriptions subscribe to the driver's package, in all namespaces. Users write most of them, so only the ones in
	// the operators' own namespaces have more than a name.
	subscriptions []v1alpha1.Subscription
	// groups are the namespaces where OLM installs operators for the whole cluster.
	groups []string
	// versions and installPlans are the ones for the driver's package in the operators' namespaces.
	versions     []v1alpha1.ClusterServiceVersion
	installPlans []v1alpha1.InstallPlan
	// bySuccessor says that the cluster storage operator itself hands the driver over.
	bySuccessor bool
	// extensions are the ClusterExtensions of the driver's package, and installed are the objects that the ClusterExtension has installed,
	// if there is only one.
	extensions   []extension
	installed    []metav1.PartialObjectMetadata
	namespaceUID types.UID // of the operator's namespace
	old          []oldCustomResource
	custom       *operatorv1.ClusterCSIDriver
	csiDriver    *storagev1.CSIDriver
	storage      *operatorv1.Storage
	placed       placement.Decision
	references   []placement.Reference
	deployments  []workload[appsv1.Deployment] // of the driver
	daemonSets   []workload[appsv1.DaemonSet]
}

// workload is a workload of the driver: the existing one, and the definition's.
type workload[T any] struct{ live, desired T }

// oldCustomResource is an object that configured an operator.
type oldCustomResource struct {
	of drivers.CustomResource
	drivers.OldSettings
}

// observe reads all that a plan is made from.
func observe(ctx context.Context, cluster migrate.Cluster, r Request) (*input, error) {
	in, c := &input{driver: r.Driver, bySuccessor: r.bySuccessor}, cluster.Client
	for _, read := range []func(context.Context, client.Client) error{in.readBindings, in.readOLM, in.readExtensions, in.readInstalled, in.readSettings, in.readPlatform, in.readDriver} {
		if err := read(ctx, c); err != nil {
			return nil, err
		}
	}
	if err := in.readSubscriptions(ctx, cluster.Config); err != nil {
		return nil, err
	}
	return in, in.readConfig(ctx, c)
}

func (in *input) readBindings(ctx context.Context, c client.Client) (err error) {
	in.proven, in.started, err = readBindings(ctx, c, in.driver)
	return err
}

// readBindings returns the operators that OLM runs, as their permissions show, and whether the cluster storage operator has given
// permissions to its own operator.
func readBindings(ctx context.Context, c client.Client, d drivers.Driver) ([]predecessor.Operator, bool, error) {
	list := &rbacv1.ClusterRoleBindingList{}
	if err := c.List(ctx, list); err != nil {
		return nil, false, fmt.Errorf("listing ClusterRoleBindings: %w", err)
	}
	var bindings []*rbacv1.ClusterRoleBinding
	for i := range list.Items {
		bindings = append(bindings, &list.Items[i])
	}
	operators, err := predecessor.Observe(ctx, c, d, bindings)
	return operators, predecessor.Succeeded(d, bindings), err
}

// readOLM reads OLM's objects in the namespaces of the operators.
func (in *input) readOLM(ctx context.Context, c client.Client) error {
	groups, err := predecessor.ReadGroups(ctx, c)
	if err != nil {
		return err
	}
	for namespace, forAll := range groups {
		if forAll {
			in.groups = append(in.groups, namespace)
		}
	}
	for _, namespace := range in.namespaces() {
		versions, installPlans := &v1alpha1.ClusterServiceVersionList{}, &v1alpha1.InstallPlanList{}
		for _, list := range []client.ObjectList{versions, installPlans} {
			if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil && !meta.IsNoMatchError(err) {
				return fmt.Errorf("listing the objects of OLM in namespace %s: %w", namespace, err)
			}
		}
		for _, v := range versions.Items {
			if !v.IsCopied() && isVersion(in.driver, v) {
				in.versions = append(in.versions, v)
			}
		}
		for _, p := range installPlans.Items {
			if slices.ContainsFunc(p.Spec.ClusterServiceVersionNames, func(name string) bool { _, of := in.driver.VersionOf(name); return of }) {
				in.installPlans = append(in.installPlans, p)
			}
		}
	}
	return nil
}

// readSubscriptions reads the Subscriptions to the driver's package. Any user may write any number of Subscriptions, as large as the API
// server accepts, so only one at a time is in memory.
func (in *input) readSubscriptions(ctx context.Context, config *rest.Config) error {
	c, err := subscription.Client(config)
	if err != nil {
		return err
	}
	own := in.namespaces()
	err = subscription.Each(ctx, c, "", func(s v1alpha1.Subscription) error {
		if s.Spec == nil || s.Spec.Package != in.driver.Package.Name {
			return nil
		}
		if !slices.Contains(own, s.Namespace) {
			s = v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID}}
		}
		in.subscriptions = append(in.subscriptions, s)
		return nil
	})
	if apierrors.IsNotFound(err) { // OLM is absent
		return nil
	}
	return err
}

// readConfig reads spec.config of the operator's Subscription, which a plan only warns about. It reads nothing for the cluster storage
// operator, which shows no warnings, and may not read a Subscription by its name.
func (in *input) readConfig(ctx context.Context, c client.Client) error {
	o := in.operator()
	if in.bySuccessor || o == nil || o.subscription == nil {
		return nil
	}
	own, whole := o.subscription, &v1alpha1.Subscription{}
	found, err := migrate.Find(ctx, c, whole, own.Namespace, own.Name)
	if err != nil {
		return fmt.Errorf("reading Subscription %s/%s: %w", own.Namespace, own.Name, err)
	}
	if found && whole.UID == own.UID && whole.Spec != nil {
		own.Spec.Config = whole.Spec.Config
	}
	return nil
}

// isVersion reports whether a ClusterServiceVersion belongs to the driver: by its package's name, or by an API that it
// owns.
func isVersion(d drivers.Driver, v v1alpha1.ClusterServiceVersion) bool {
	_, of := d.VersionOf(v.Name)
	return of || slices.ContainsFunc(d.OldCustomResources(), func(r drivers.CustomResource) bool { return owns(v, r.Definition) })
}

// owns reports whether a ClusterServiceVersion owns a CustomResourceDefinition.
func owns(v v1alpha1.ClusterServiceVersion, definition string) bool {
	return slices.ContainsFunc(v.Spec.CustomResourceDefinitions.Owned, func(o v1alpha1.CRDDescription) bool { return o.Name == definition })
}

func (in *input) readSettings(ctx context.Context, c client.Client) error {
	for _, of := range in.driver.OldCustomResources() {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(of.Kind)
		if found, err := migrate.Find(ctx, c, object, "", of.Name); err != nil {
			return fmt.Errorf("reading %s: %w", of, err)
		} else if found {
			in.old = append(in.old, oldCustomResource{of, drivers.ReadOldSettings(object)})
		}
	}
	return nil
}

func (in *input) readPlatform(ctx context.Context, c client.Client) error {
	storage, custom, csiDriver := &operatorv1.Storage{}, &operatorv1.ClusterCSIDriver{}, &storagev1.CSIDriver{}
	if found, err := migrate.Find(ctx, c, storage, "", "cluster"); err != nil {
		return fmt.Errorf("reading Storage cluster: %w", err)
	} else if found {
		in.storage = storage
	}
	if found, err := migrate.Find(ctx, c, custom, "", in.driver.CSIName); err != nil {
		return fmt.Errorf("reading ClusterCSIDriver %s: %w", in.driver.CSIName, err)
	} else if found {
		in.custom = custom
	}
	if found, err := migrate.Find(ctx, c, csiDriver, "", in.driver.CSIName); err != nil {
		return fmt.Errorf("reading CSIDriver %s: %w", in.driver.CSIName, err)
	} else if found {
		in.csiDriver = csiDriver
	}
	if len(in.proven) == 0 {
		return nil
	}
	var err error
	in.namespaceUID, err = migrate.NamespaceUID(ctx, c, in.proven[0].Namespace)
	return err
}

// readDriver reads where the driver is, and its workloads.
func (in *input) readDriver(ctx context.Context, c client.Client) error {
	var metadata *metav1.ObjectMeta
	if in.custom != nil {
		metadata = &in.custom.ObjectMeta
	}
	// The cluster storage operator's operator will decide in the same way.
	observed, err := placement.Observe(ctx, c, in.driver, drivers.ClusterStorageNamespace, metadata)
	if err != nil {
		return fmt.Errorf("locating driver %s: %w", in.driver.CSIName, err)
	}
	in.placed, in.references = placement.Decide(in.driver, observed), observed.References
	if in.placed.Refusal != nil || in.placed.Create {
		return nil
	}
	manifests, err := in.driver.Operand(drivers.Values{Namespace: in.placed.Namespace, Image: func(env string) string { return env }})
	if err != nil {
		return err
	}
	if in.deployments, err = readWorkloads[appsv1.Deployment](ctx, c, manifests, "Deployment"); err != nil {
		return err
	}
	in.daemonSets, err = readWorkloads[appsv1.DaemonSet](ctx, c, manifests, "DaemonSet")
	return err
}

// readWorkloads reads the workloads of a kind that exist.
func readWorkloads[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c client.Client, manifests []drivers.Manifest, kind string) (found []workload[T], err error) {
	for _, m := range drivers.OfKind(manifests, kind) {
		w := workload[T]{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.Object.Object, &w.desired); err != nil {
			return nil, fmt.Errorf("%s %s of the definition: %w", kind, m.Object.GetName(), err)
		}
		exists, err := migrate.Find(ctx, c, P(&w.live), m.Object.GetNamespace(), m.Object.GetName())
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", kind, m.Object.GetName(), err)
		}
		if exists {
			found = append(found, w)
		}
	}
	return found, nil
}
