package sharedvolume

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// Most of an object is of any length that its author likes, up to the 1.5 MiB that an API server takes:
// annotations, finalizers, selectors, even the name of a volume in a claim. Of each, this much is kept. What is
// longer than that is nothing that the controller could have written or that Kubernetes would accept, so it
// makes no difference to what is decided where exactly it is cut off.
const (
	// maxName is enough for a name that is one, and for an ID.
	maxName = validation.DNS1123SubdomainMaxLength + 1
	// maxText is enough for the messages that the controller writes.
	maxText = 4*maxMessage + 1
	// maxEntries is enough for the conditions of a status, the mount options of a volume, and the finalizers
	// that a message tells of.
	maxEntries = 4
)

// unlisted stands among the finalizers of a trimmed object for those that were left out. No finalizer can have
// this name.
const omittedFinalizers = "…"

// trim leaves of an object only what something here goes by, and of that only so much that the rest of it is
// of bounded size; that is all that caches and memory hold. Writes do not miss what it drops: all of them are
// patches of few fields.
func trim(object client.Object) {
	switch object := object.(type) {
	case *v1alpha1.SharedVolume:
		trimmed := v1alpha1.SharedVolume{ObjectMeta: trimmedMeta(object), Status: trimmedStatus(object.Status)}
		trimmed.Spec = v1alpha1.SharedVolumeSpec{FileSystemID: truncate(object.Spec.FileSystemID, maxName), AccessPointID: truncate(object.Spec.AccessPointID, maxName)}
		*object = trimmed
	case *corev1.PersistentVolumeClaim:
		trimmed := corev1.PersistentVolumeClaim{
			ObjectMeta: trimmedMeta(object),
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: truncate(object.Spec.VolumeName, maxName)},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: truncate(object.Status.Phase, maxName)},
		}
		if class := object.Spec.StorageClassName; class != nil {
			class := truncate(*class, maxName)
			trimmed.Spec.StorageClassName = &class
		}
		if selector := object.Spec.Selector; selector != nil {
			trimmed.Spec.Selector = &metav1.LabelSelector{MatchLabels: selectKeys(selector.MatchLabels, OwnerUIDLabel)}
		}
		*object = trimmed
	case *corev1.PersistentVolume:
		trimmed := corev1.PersistentVolume{
			ObjectMeta: trimmedMeta(object),
			Spec: corev1.PersistentVolumeSpec{
				MountOptions:                  firstFew(object.Spec.MountOptions),
				PersistentVolumeReclaimPolicy: truncate(object.Spec.PersistentVolumeReclaimPolicy, maxName),
			},
			Status: corev1.PersistentVolumeStatus{Phase: truncate(object.Status.Phase, maxName)},
		}
		if csi := object.Spec.CSI; csi != nil {
			trimmed.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: truncate(csi.Driver, maxName), VolumeHandle: truncate(csi.VolumeHandle, 2*maxName)}
		}
		if ref := object.Spec.ClaimRef; ref != nil {
			trimmed.Spec.ClaimRef = &corev1.ObjectReference{
				Namespace: truncate(ref.Namespace, maxName), Name: truncate(ref.Name, maxName), UID: truncate(ref.UID, maxName)}
		}
		*object = trimmed
	}
}

func trimmedMeta(object client.Object) metav1.ObjectMeta {
	trimmed := metav1.ObjectMeta{
		Namespace:         object.GetNamespace(),
		Name:              object.GetName(),
		UID:               object.GetUID(),
		ResourceVersion:   object.GetResourceVersion(),
		Generation:        object.GetGeneration(),
		CreationTimestamp: object.GetCreationTimestamp(),
		DeletionTimestamp: object.GetDeletionTimestamp(),
		Finalizers:        trimmedFinalizers(object.GetFinalizers()),
	}
	if _, ok := object.(*v1alpha1.SharedVolume); !ok {
		trimmed.Labels = selectKeys(object.GetLabels(), OwnedLabel, OwnerNamespaceLabel, OwnerNameLabel, OwnerUIDLabel)
		trimmed.Annotations = selectKeys(object.GetAnnotations(), OwnerNameLabel)
	}
	return trimmed
}

// trimmedFinalizers returns all of an object's finalizers if they are few. Else it returns whether the
// controller's is one of them, some of the others for people to read, and unlisted.
func trimmedFinalizers(all []string) []string {
	if len(all) <= maxEntries {
		return all
	}
	var kept []string
	if slices.Contains(all, Finalizer) {
		kept = append(kept, Finalizer)
	}
	for _, finalizer := range all {
		if finalizer != Finalizer && len(kept) < maxEntries {
			kept = append(kept, finalizer)
		}
	}
	return append(kept, omittedFinalizers)
}

// trimmedStatus returns a status that differs from what the controller would write if the given one does.
// Conditions of others, which only administrators can write, are kept if they are few and short.
func trimmedStatus(status v1alpha1.SharedVolumeStatus) v1alpha1.SharedVolumeStatus {
	trimmed := v1alpha1.SharedVolumeStatus{
		Phase:              truncate(status.Phase, maxName),
		Message:            truncate(status.Message, maxText),
		ObservedGeneration: status.ObservedGeneration,
	}
	trimmed.ClaimRef.Kind, trimmed.ClaimRef.Name = truncate(status.ClaimRef.Kind, maxName), truncate(status.ClaimRef.Name, maxName)
	if group := status.ClaimRef.APIGroup; group != nil {
		group := truncate(*group, maxName)
		trimmed.ClaimRef.APIGroup = &group
	}
	for _, condition := range status.Conditions {
		if len(trimmed.Conditions) < maxEntries {
			trimmed.Conditions = append(trimmed.Conditions, trimmedCondition(condition))
		}
	}
	if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); ready != nil {
		meta.SetStatusCondition(&trimmed.Conditions, trimmedCondition(*ready))
	}
	return trimmed
}

func trimmedCondition(condition metav1.Condition) metav1.Condition {
	condition.Type, condition.Status = truncate(condition.Type, maxName), truncate(condition.Status, maxName)
	condition.Reason, condition.Message = truncate(condition.Reason, maxName), truncate(condition.Message, maxText)
	return condition
}

// only returns those of the entries that have the given keys, and a value that a label can have or a name
// is; nil if there is none. The keys are shared by all objects, where each object from the API server has
// copies of its own.
func selectKeys(entries map[string]string, keys ...string) map[string]string {
	var found map[string]string
	for _, key := range keys {
		if value, ok := entries[key]; ok && len(value) < maxName {
			if found == nil {
				found = make(map[string]string, len(keys))
			}
			found[key] = value
		}
	}
	return found
}

// some returns the first of some texts.
func firstFew(texts []string) []string {
	var kept []string
	for _, text := range texts[:min(len(texts), maxEntries)] {
		kept = append(kept, truncate(text, maxName))
	}
	return kept
}

// cut returns a text, or the beginning of one that is longer than that, without the rest in memory.
func truncate[T ~string](text T, most int) T {
	if len(text) <= most {
		return text
	}
	return T(strings.Clone(string(text[:most])))
}
