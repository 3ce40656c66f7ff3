package adoption

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/clusterextension"
)

// OLM v1 installs an operator for a ClusterExtension, and owns all that it installs. When the ClusterExtension is
// deleted, the garbage collector deletes these objects with it, APIs included, unless the request orphans them.
//
// OLM does nothing for a ClusterExtension that is being deleted. But OLM may still be applying the ClusterExtension when somebody deletes
// it, and may make it the owner again of an API that the garbage collector has just orphaned. That API would be deleted once the
// ClusterExtension is gone. So a finalizer keeps the ClusterExtension until OLM has removed OLM's finalizers and had some time, and the
// ClusterExtension owns no API any more.

// handOverFinalizer keeps a ClusterExtension as long as it owns objects that must stay.
const handOverFinalizer = "berth.dev/hand-over"

var (
	extensionKind = clusterextension.Kind
	// objectSetKind is the kind in which OLM v1 records its installed objects if its feature BoxcutterRuntime is enabled.
	objectSetKind = extensionKind.GroupVersion().WithKind("ClusterObjectSet")
)

// extension is a ClusterExtension.
type extension struct{ *unstructured.Unstructured }

func (e extension) text(path ...string) string {
	text, _, _ := unstructured.NestedString(e.Object, path...)
	return text
}

// namespace returns where the ClusterExtension installs its package; bundle and version return the installed bundle and its version.
func (e extension) namespace() string { return e.text("spec", "namespace") }
func (e extension) bundle() string    { return e.text("status", "install", "bundle", "name") }
func (e extension) version() string   { return e.text("status", "install", "bundle", "version") }

func (e extension) isHeld() bool { return controllerutil.ContainsFinalizer(e, handOverFinalizer) }

// isOrphaning reports whether the garbage collector still has objects to orphan.
func (e extension) isOrphaning() bool {
	return slices.Contains(e.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// ofOLM returns OLM's finalizers. OLM removes them when it sees that a ClusterExtension is being deleted. It sees that only after its
// current action, because OLM does one action at a time.
func (e extension) ofOLM() []string {
	return slices.DeleteFunc(e.GetFinalizers(), func(finalizer string) bool {
		return finalizer == handOverFinalizer || finalizer == metav1.FinalizerOrphanDependents
	})
}

// readExtensions reads the ClusterExtensions of the driver's package.
func (in *input) readExtensions(ctx context.Context, c client.Client) error {
	found, err := clusterextension.OfPackage(ctx, c, in.driver.Package.Name)
	for _, e := range found {
		in.extensions = append(in.extensions, extension{e})
	}
	return err
}

// readInstalled reads the installed objects of the only ClusterExtension. The cluster storage operator never deletes these objects, and has
// no permission to read them either.
func (in *input) readInstalled(ctx context.Context, c client.Client) (err error) {
	if o := in.operator(); o != nil && o.extension != nil && !in.bySuccessor {
		in.installed, err = readInstalled(ctx, c, o.extension.GetName(), o.proof.Namespace)
	}
	return err
}

func listOf(kind schema.GroupVersionKind) schema.GroupVersionKind {
	kind.Kind += "List"
	return kind
}

// installedKinds are the kinds of objects that OLM v1 installs for an operator and that serve nothing else, in the
// order of deletion. The ClusterRoleBindings are last: the cluster storage operator starts nothing while they show an
// operator. Other kinds stay, above all the APIs.
var installedKinds = []schema.GroupVersionKind{
	deploymentKind,
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"},
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ServiceAccount"},
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
}

var deploymentKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}

// readLabelled returns the objects of a kind with OLM v1's labels for a ClusterExtension. For kinds that are not cluster-scoped, the
// caller must name a namespace: anybody can give an object of their own such labels.
func readLabelled(ctx context.Context, c client.Client, kind schema.GroupVersionKind, name string, options ...client.ListOption) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(listOf(kind))
	err := c.List(ctx, list, append(options, client.MatchingLabels(predecessor.LabelsOf(name)))...)
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("listing the objects of kind %s that ClusterExtension %s has installed: %w", kind.Kind, name, err)
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(kind)
	}
	return list.Items, nil
}

// readInstalled returns the objects that OLM v1 has installed for an operator of a ClusterExtension, in the order of deletion. Namespaced
// objects count only in the operator's namespace.
func readInstalled(ctx context.Context, c client.Client, name, namespace string) (found []metav1.PartialObjectMetadata, err error) {
	for _, kind := range installedKinds {
		objects, err := readLabelled(ctx, c, kind, name, client.InNamespace(namespace))
		if err != nil {
			return nil, err
		}
		found = append(found, objects...)
	}
	return found, nil
}

// readExtension reads the plan's ClusterExtension and its installed objects, as far as they still exist.
func (s *state) readExtension(ctx context.Context, c client.Client) error {
	o := s.plan.Operator
	name := o.Extension.Name
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(extensionKind)
	if found, err := migrate.Find(ctx, c, live, "", name); err != nil {
		return fmt.Errorf("reading ClusterExtension %s: %w", name, err)
	} else if found {
		s.extension = &extension{live}
	}
	var err error
	if s.namespaceUID, err = migrate.NamespaceUID(ctx, c, o.Namespace); err != nil {
		return err
	}
	if s.objectSets, err = readLabelled(ctx, c, objectSetKind, name); err != nil {
		return err
	}
	definitions, err := readLabelled(ctx, c, definitionKind, name)
	if err != nil {
		return err
	}
	for _, d := range definitions {
		if isOwnedBy(&d, o.Extension.UID) {
			s.ownedAPIs = append(s.ownedAPIs, d)
		}
	}
	s.installed, err = readInstalled(ctx, c, name, o.Namespace)
	return err
}
