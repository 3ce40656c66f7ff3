package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/listing"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/subscription"
)

// location holds the places of a driver and its operator. If objects could not be read, the errors say so, and the sections that need these
// objects report them.
type location struct {
	// subscriptions are the Subscriptions to the driver's package in any namespace, the proven ones first. Anybody may have created
	// one.
	subscriptions []v1alpha1.Subscription
	// forAll are the namespaces with an OperatorGroup for all namespaces. OLM installs the operators of drivers only there, and no
	// tenant can create such a group.
	forAll           map[string]bool
	subscriptionsErr error
	// unsubscribed are the ClusterServiceVersions of the driver's operator, if there is no Subscription. Anybody may have created one.
	unsubscribed []types.NamespacedName
	// extensions are the ClusterExtensions of the driver's package. They are cluster-scoped.
	extensions []*unstructured.Unstructured
	// custom and csiDriver are nil if they do not exist.
	custom    *operatorv1.ClusterCSIDriver
	csiDriver *storagev1.CSIDriver
	// decision is the decision about the driver's namespace.
	decision placement.Decision
	// proven are namespaces of operators according to cluster-scoped objects.
	proven    []string
	driverErr error
}

// find finds a driver. It fails if the API server does not answer.
func find(ctx context.Context, c Cluster, d drivers.Driver) (*location, error) {
	f := &location{}
	if f.subscriptionsErr = f.findSubscriptions(ctx, c, d); f.subscriptionsErr == nil && d.HasPackage() {
		f.extensions, f.subscriptionsErr = clusterextension.OfPackage(ctx, c.Client, d.Package.Name)
	}
	f.driverErr = f.findDriver(ctx, c, d)
	slices.SortStableFunc(f.subscriptions, func(a, b v1alpha1.Subscription) int { return cmp.Compare(f.rank(a), f.rank(b)) })
	for _, err := range []error{f.subscriptionsErr, f.driverErr} {
		if err == nil {
			continue
		}
		if _, err := notExamined(err); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// any reports whether the driver has an object that only administrators or their operators create.
func (f *location) any() bool {
	return f.isSubscribed() || len(f.extensions) > 0 || f.custom != nil || f.csiDriver != nil
}

func (f *location) findSubscriptions(ctx context.Context, c Cluster, d drivers.Driver) error {
	if !d.HasPackage() {
		return nil
	}
	client, err := c.rest(v1alpha1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	if f.forAll, err = predecessor.ReadGroups(ctx, c.Client); err != nil {
		return err
	}
	err = optional(subscription.Each(ctx, client, "", func(s v1alpha1.Subscription) error {
		if s.Spec != nil && s.Spec.Package == d.Package.Name {
			f.subscriptions = append(f.subscriptions, trimmed(s))
		}
		return nil
	}))
	if err != nil || f.installs() {
		return err
	}
	type version struct {
		Metadata struct{ Namespace, Name string }
	}
	own := listing.List{Resource: "clusterserviceversions", Labels: "!" + v1alpha1.CopiedLabelKey}
	return optional(listing.Each(ctx, client, own, func(v version) error {
		if strings.HasPrefix(v.Metadata.Name, d.Package.Name+".v") {
			f.unsubscribed = append(f.unsubscribed, types.NamespacedName{Namespace: v.Metadata.Namespace, Name: v.Metadata.Name})
		}
		return nil
	}))
}

func (f *location) findDriver(ctx context.Context, c Cluster, d drivers.Driver) error {
	custom, csiDriver := &operatorv1.ClusterCSIDriver{}, &storagev1.CSIDriver{}
	var metadata *metav1.ObjectMeta
	hasCustom, err := c.read(ctx, custom, "", d.CSIName)
	hasDriver, readErr := c.read(ctx, csiDriver, "", d.CSIName) // a user may be allowed to read only one of the two
	if hasCustom {
		f.custom, metadata = custom, &custom.ObjectMeta
	}
	if hasDriver {
		f.csiDriver = csiDriver
	}
	if err := cmp.Or(err, readErr); err != nil {
		return err
	}
	observed, err := placement.Observe(ctx, c.Client, d, f.operatorNamespace(), metadata)
	if err != nil {
		return fmt.Errorf("locating driver %s: %w", d.CSIName, err)
	}
	f.decision = placement.Decide(d, observed)
	f.proven = f.decision.Believed
	if len(d.Predecessors()) == 0 {
		return nil
	}
	bindings := &rbacv1.ClusterRoleBindingList{}
	if err := c.list(ctx, bindings); err != nil {
		return err
	}
	pointers := make([]*rbacv1.ClusterRoleBinding, len(bindings.Items))
	for i := range bindings.Items {
		pointers[i] = &bindings.Items[i]
	}
	operators, err := predecessor.Observe(ctx, c.Client, d, pointers)
	for _, operator := range operators {
		f.proven = append(f.proven, operator.Namespace)
	}
	return err
}

// trimmed returns the fields of a Subscription that are read. Anybody may have made it as large as the API server accepts.
func trimmed(s v1alpha1.Subscription) v1alpha1.Subscription {
	short := func(text string) string { return escape.Short(text, 1000) }
	kept := v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}, Spec: &v1alpha1.SubscriptionSpec{
		Package: s.Spec.Package, Channel: short(s.Spec.Channel), InstallPlanApproval: v1alpha1.Approval(short(string(s.Spec.InstallPlanApproval))),
		CatalogSource: short(s.Spec.CatalogSource), CatalogSourceNamespace: short(s.Spec.CatalogSourceNamespace),
	}}
	kept.Status.State, kept.Status.InstalledCSV, kept.Status.CurrentCSV = s.Status.State, short(s.Status.InstalledCSV), short(s.Status.CurrentCSV)
	if ref := s.Status.InstallPlanRef; ref != nil {
		kept.Status.InstallPlanRef = &corev1.ObjectReference{Name: short(ref.Name)}
	}
	for _, c := range s.Status.Conditions[:min(len(s.Status.Conditions), 10)] {
		kept.Status.Conditions = append(kept.Status.Conditions, v1alpha1.SubscriptionCondition{Type: c.Type, Status: c.Status, Reason: short(c.Reason), Message: short(c.Message)})
	}
	return kept
}

// mayBeForeign reports whether a Subscription may be a stranger's: it is not in a proven namespace, and either another namespace is proven,
// or OLM would install nothing from the Subscription.
func (f *location) mayBeForeign(s v1alpha1.Subscription) bool {
	return !slices.Contains(f.proven, s.Namespace) && (len(f.proven) > 0 || !f.forAll[s.Namespace])
}

// isSubscribed reports whether an administrator has asked OLM for the driver's operator.
func (f *location) isSubscribed() bool {
	return slices.ContainsFunc(f.subscriptions, func(s v1alpha1.Subscription) bool { return !f.mayBeForeign(s) })
}

// installs reports whether OLM v0 would install the driver's operator from a Subscription, whoever has created that.
func (f *location) installs() bool {
	return slices.ContainsFunc(f.subscriptions, func(s v1alpha1.Subscription) bool { return f.forAll[s.Namespace] })
}

// rank orders Subscriptions: the ones that count come first.
func (f *location) rank(s v1alpha1.Subscription) int {
	switch {
	case f.mayBeForeign(s):
		return 2
	case s.Status.InstalledCSV == "":
		return 1
	}
	return 0
}

// ofExtensions returns the namespaces in which OLM v1 runs the driver's operator.
func (f *location) ofExtensions() (namespaces []string) {
	for _, e := range f.extensions {
		if namespace, _, _ := unstructured.NestedString(e.Object, "spec", "namespace"); namespace != "" {
			namespaces = append(namespaces, namespace)
		}
	}
	return namespaces
}

// operatorNamespace returns the namespace in which OLM runs the driver's operator, or "" if it runs none or the namespace is
// uncertain.
func (f *location) operatorNamespace() string {
	namespaces := f.ofExtensions()
	for _, s := range f.subscriptions {
		if s.Status.InstalledCSV != "" && f.forAll[s.Namespace] {
			namespaces = append(namespaces, s.Namespace)
		}
	}
	if len(namespaces) != 1 {
		return ""
	}
	return namespaces[0]
}

// operators returns the namespaces in which an operator of the driver runs.
func (f *location) operators() []string {
	namespaces := f.ofExtensions()
	for _, s := range f.subscriptions {
		if s.Status.InstalledCSV != "" && !f.mayBeForeign(s) {
			namespaces = append(namespaces, s.Namespace)
		}
	}
	if f.decision.Owner != nil {
		namespaces = append(namespaces, f.decision.Owner.Namespace)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}
