package sharedvolume

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// trim leaves of an object only what something here goes by; that is all that caches and memory hold.
// What it drops is most of an object, and has no bound that we set: whoever owns a namespace may put
// 256 KiB of annotations on each object. Writes do not miss it: all of them are patches of few fields.
func trim(object client.Object) {
	switch object := object.(type) {
	case *v1alpha1.SharedVolume:
		*object = v1alpha1.SharedVolume{ObjectMeta: trimmedMeta(object), Spec: object.Spec, Status: object.Status}
	case *corev1.PersistentVolumeClaim:
		*object = corev1.PersistentVolumeClaim{
			ObjectMeta: trimmedMeta(object),
			Spec: corev1.PersistentVolumeClaimSpec{
				Selector:         object.Spec.Selector,
				StorageClassName: object.Spec.StorageClassName,
				VolumeName:       object.Spec.VolumeName,
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: object.Status.Phase},
		}
	case *corev1.PersistentVolume:
		trimmed := corev1.PersistentVolume{
			ObjectMeta: trimmedMeta(object),
			Spec: corev1.PersistentVolumeSpec{
				MountOptions:                  object.Spec.MountOptions,
				PersistentVolumeReclaimPolicy: object.Spec.PersistentVolumeReclaimPolicy,
			},
			Status: corev1.PersistentVolumeStatus{Phase: object.Status.Phase},
		}
		if csi := object.Spec.CSI; csi != nil {
			trimmed.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: csi.VolumeHandle}
		}
		if ref := object.Spec.ClaimRef; ref != nil {
			trimmed.Spec.ClaimRef = &corev1.ObjectReference{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
		}
		*object = trimmed
	}
}

func trimmedMeta(object client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:         object.GetNamespace(),
		Name:              object.GetName(),
		UID:               object.GetUID(),
		ResourceVersion:   object.GetResourceVersion(),
		Generation:        object.GetGeneration(),
		CreationTimestamp: object.GetCreationTimestamp(),
		DeletionTimestamp: object.GetDeletionTimestamp(),
		Finalizers:        object.GetFinalizers(),
		Labels:            only(object.GetLabels(), OwnedLabel, OwnerNamespaceLabel, OwnerNameLabel, OwnerUIDLabel),
		Annotations:       only(object.GetAnnotations(), OwnerNameLabel),
	}
}

// only returns those of the entries that have the given keys; nil if none has. The keys are shared by
// all objects, where each object from the API server has copies of its own.
func only(entries map[string]string, keys ...string) map[string]string {
	var found map[string]string
	for _, key := range keys {
		if value, ok := entries[key]; ok {
			if found == nil {
				found = make(map[string]string, len(keys))
			}
			found[key] = value
		}
	}
	return found
}
