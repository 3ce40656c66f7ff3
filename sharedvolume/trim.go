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

// The author of an object may make most of its fields as long as an API server accepts, which is 1.5 MiB: annotations,
// finalizers, selectors, even the name of a volume in a claim. The caches keep this much of each. Neither the controller nor
// Kubernetes would write a longer value, so truncating it does not affect any decision.
const (
	// maxName is enough for a valid name, and for an ID.
	maxName = validation.DNS1123SubdomainMaxLength + 1
	// maxText is enough for the messages that the controller writes.
	maxText = 4*maxMessage + 1
	// maxEntries is enough for the conditions of a status, the mount options of a volume, and the finalizers in a message.
	maxEntries = 4
)

// omittedFinalizers stands for the finalizers that a trimmed object lacks. No finalizer can have this name.
const omittedFinalizers = "…"

// trim removes from an object all fields that this package does not read, and truncates the others to a bounded size.
// Caches and expectations hold trimmed objects only. Writes do not need the removed fields, because they patch single
// fields.
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

// trimmedFinalizers returns the finalizers of an object. If there are many, it returns the controller's finalizer, if present, some of
// the others for messages, and omittedFinalizers.
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

// trimmedStatus trims a status so that the trimmed status equals the controller's next status only if the untrimmed one does. It keeps a
// few foreign conditions, which only administrators can write.
func trimmedStatus(status v1alpha1.SharedVolumeStatus) v1alpha1.SharedVolumeStatus {
	trimmed := v1alpha1.SharedVolumeStatus{
		Phase:              truncate(status.Phase, maxName),
		Message:            truncate(status.Message, maxText),
		Reason:             truncate(status.Reason, maxName),
		Summary:            truncate(status.Summary, maxText),
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

// selectKeys returns the entries with the given keys, unless their values are too long for a label or a name; nil if no entry is left.
// The results for all objects share the memory of the keys, whereas each object from the API server has its own copy.
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

// firstFew returns the first few texts.
func firstFew(texts []string) []string {
	var kept []string
	for _, text := range texts[:min(len(texts), maxEntries)] {
		kept = append(kept, truncate(text, maxName))
	}
	return kept
}

// truncate returns the first bytes of a text. It does not keep the rest in memory.
func truncate[T ~string](text T, most int) T {
	if len(text) <= most {
		return text
	}
	return T(strings.Clone(string(text[:most])))
}
