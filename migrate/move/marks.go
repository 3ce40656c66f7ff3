package move

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/predecessor"
)

// OLM v1 takes over an existing object only if the object is marked as its own. With Helm, the marks are a label and two annotations.
// Boxcutter, which prevents collisions, checks the controller of the object instead: this must be the ClusterObjectSet that OLM v1 has made
// from the bundle. That ClusterObjectSet waits until all collisions are gone.

// The label and the annotations of objects that Helm has installed.
const (
	managedByLabel          = "app.kubernetes.io/managed-by"
	helmNameAnnotation      = "meta.helm.sh/release-name"
	helmNamespaceAnnotation = "meta.helm.sh/release-namespace"
	helm                    = "Helm"
	boxcutter               = "olm.operatorframework.io"
	// revisionAnnotation is Boxcutter's. Boxcutter does not take over an object that has this annotation and no controller.
	revisionAnnotation = "olm.operatorframework.io/revision"
)

// Owner is the ClusterObjectSet that is to control the objects.
type Owner struct {
	Name string
	UID  types.UID
}

func (o Owner) reference() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: objectSetKind.GroupVersion().String(), Kind: objectSetKind.Kind, Name: o.Name, UID: o.UID,
		Controller: new(true), BlockOwnerDeletion: new(true)}
}

// mark changes an object so that OLM v1 takes it over for a ClusterExtension: by Helm or, with a set, by Boxcutter.
func mark(object client.Object, extension, namespace string, set *Owner) {
	if set != nil {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), set.reference()))
		return
	}
	labels, annotations := maps.Clone(object.GetLabels()), maps.Clone(object.GetAnnotations())
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[managedByLabel] = helm
	annotations[helmNameAnnotation], annotations[helmNamespaceAnnotation] = extension, namespace
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
}

// isMarked reports whether OLM v1 takes an object over.
func isMarked(object client.Object, extension, namespace string, boxcutter bool) bool {
	if boxcutter {
		owner := metav1.GetControllerOf(object)
		return owner != nil && owner.Kind == objectSetKind.Kind
	}
	annotations := object.GetAnnotations()
	return object.GetLabels()[managedByLabel] == helm && annotations[helmNameAnnotation] == extension && annotations[helmNamespaceAnnotation] == namespace
}

// v0Labels returns the labels that OLM v0 sets on its objects.
func v0Labels(pkg, namespace string) []string {
	return []string{ownerLabel, ownerKindLabel, ownerNamespaceLabel, managedLabel, specHashLabel, componentLabel(pkg, namespace)}
}

// removeMetadata removes labels and annotations from an object.
func removeMetadata(object client.Object, labels, annotations []string) {
	remove := func(of map[string]string, keys []string) map[string]string {
		left := maps.Clone(of)
		for _, key := range keys {
			delete(left, key)
		}
		return left
	}
	object.SetLabels(remove(object.GetLabels(), labels))
	object.SetAnnotations(remove(object.GetAnnotations(), annotations))
}

// unmark removes the marks of OLM v1 and of the move. The ClusterExtension and ClusterObjectSets are gone, or a finalizer keeps them.
func unmark(object client.Object) {
	labels := slices.Collect(maps.Keys(predecessor.LabelsOf("")))
	if by := object.GetLabels()[managedByLabel]; by == helm && object.GetAnnotations()[helmNameAnnotation] != "" || by == boxcutter {
		labels = append(labels, managedByLabel)
	}
	removeMetadata(object, labels, []string{helmNameAnnotation, helmNamespaceAnnotation, revisionAnnotation, movedAnnotation})
	object.SetOwnerReferences(slices.DeleteFunc(slices.Clone(object.GetOwnerReferences()), isOfV1))
}

// isOfV1 reports whether an owner is an object of OLM v1's API.
func isOfV1(owner metav1.OwnerReference) bool {
	return owner.APIVersion == objectSetKind.GroupVersion().String()
}

// isOwnedByV1 reports whether an object would be deleted with a ClusterExtension or ClusterObjectSet.
func isOwnedByV1(o metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(o.OwnerReferences, isOfV1)
}

// hasMarks reports whether unmark changes an object.
func hasMarks(object client.Object) bool {
	changed := object.DeepCopyObject().(client.Object)
	unmark(changed)
	return len(changed.GetLabels()) != len(object.GetLabels()) || len(changed.GetAnnotations()) != len(object.GetAnnotations()) ||
		len(changed.GetOwnerReferences()) != len(object.GetOwnerReferences())
}

// definitionOf converts a CustomResourceDefinition to its Go type.
func definitionOf(object *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition)
	return definition, err
}
