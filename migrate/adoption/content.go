package adoption

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/migrate"
)

// readNamespaces reads the operators' namespaces in the definition, and the objects in them that do not belong to the operator. It reads
// these objects only if content is set, or if nothing else is left to clean up.
func (m *remains) readNamespaces(ctx context.Context, cluster migrate.Cluster, content bool) error {
	if o := m.journaled(); o != nil {
		uid, err := migrate.NamespaceUID(ctx, cluster.Client, o.Namespace)
		if err != nil {
			return err
		}
		m.namespaceExists = uid == o.NamespaceUID
	}
	for _, name := range suggested(m.driver) {
		n := operatorNamespace{name: name}
		namespace := &corev1.Namespace{}
		found, err := migrate.Find(ctx, cluster.Client, namespace, "", name)
		if err != nil {
			return fmt.Errorf("reading Namespace %s: %w", name, err)
		}
		if found {
			n.object = namespace
		}
		if found && namespace.DeletionTimestamp == nil && (content || len(m.others()) == 0) {
			objects, err := readContent(ctx, cluster, name)
			if err != nil {
				return err
			}
			n.content = foreignObjects(m.driver, objects)
		}
		m.namespaces = append(m.namespaces, n)
	}
	return nil
}

// readContent reads the metadata of everything in a namespace.
func readContent(ctx context.Context, cluster migrate.Cluster, namespace string) (found []metav1.PartialObjectMetadata, err error) {
	discovered, err := discovery.NewDiscoveryClientForConfig(cluster.Config)
	if err != nil {
		return nil, err
	}
	lists, err := discovered.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("some of the cluster's APIs do not answer, so nobody knows what is in namespace %s: %w", namespace, err)
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			// An object that nobody can create or delete is only a view of another one, such as a PackageManifest.
			if !slices.Contains(resource.Verbs, "list") || !slices.Contains(resource.Verbs, "delete") || resource.Kind == "Event" {
				continue
			}
			objects := &metav1.PartialObjectMetadataList{}
			objects.SetGroupVersionKind(version.WithKind(resource.Kind + "List"))
			if err := cluster.Client.List(ctx, objects, client.InNamespace(namespace)); err != nil {
				return nil, fmt.Errorf("listing the %s of namespace %s: %w", resource.Name, namespace, err)
			}
			for _, object := range objects.Items {
				object.SetGroupVersionKind(version.WithKind(resource.Kind))
				found = append(found, object)
			}
		}
	}
	return found, nil
}

// defaultObjects lists the objects that Kubernetes and OpenShift create in each namespace, by kind.
var defaultObjects = map[string][]string{
	"ConfigMap":      {"kube-root-ca.crt", "openshift-service-ca.crt"},
	"ServiceAccount": defaultAccounts,
	"RoleBinding":    {"system:image-pullers", "system:image-builders", "system:deployers"},
}

var defaultAccounts = []string{"default", "builder", "deployer"}

// foreignObjects returns the objects of an operator's namespace that neither belong to the removed operator's installation nor exist in
// every namespace.
func foreignObjects(d drivers.Driver, objects []metav1.PartialObjectMetadata) (found []string) {
	own := map[types.UID]bool{}
	for again := true; again; { // until a round finds no more owned objects
		again = false
		for _, o := range objects {
			if !own[o.UID] && (belongs(d, o) || slices.ContainsFunc(o.OwnerReferences, func(owner metav1.OwnerReference) bool { return own[owner.UID] })) {
				own[o.UID], again = true, true
			}
		}
	}
	for _, o := range objects {
		if !own[o.UID] {
			found = append(found, o.Kind+" "+o.Name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// belongs reports whether an object belongs to the operator's installation, or exists in every namespace. Only administrators write to
// these namespaces, whose names in the definition begin with "openshift-".
func belongs(d drivers.Driver, o metav1.PartialObjectMetadata) bool {
	switch o.Kind {
	case "OperatorGroup", v1alpha1.CatalogSourceKind: // they serve this namespace alone
		return true
	case v1alpha1.ClusterServiceVersionKind: // of an operator for all namespaces: OLM copies it
		_, copied := o.Labels[v1alpha1.CopiedLabelKey]
		return copied
	case "ConfigMap": // the lock of an operator
		name, is := strings.CutSuffix(o.Name, "-lock")
		if is && slices.ContainsFunc(d.Predecessors(), func(p drivers.Predecessor) bool { return p.Operator == name }) || o.Name == d.Operator.Lock {
			return true
		}
	case "Secret":
		return slices.Contains(defaultAccounts, o.Annotations[corev1.ServiceAccountNameKey])
	}
	return slices.Contains(defaultObjects[o.Kind], o.Name)
}
