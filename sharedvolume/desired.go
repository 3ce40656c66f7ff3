package sharedvolume

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// size is the size of claims and volumes. Kubernetes requires one; EFS grows as needed and ignores it.
var size = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}

// desiredClaim returns the desired claim of a SharedVolume. Its selector is immutable, so it also proves the claim's
// owner.
func desiredClaim(sv *v1alpha1.SharedVolume) *corev1.PersistentVolumeClaim {
	labels, annotations := ownerMeta(sv)
	noClass, filesystem := "", corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   sv.Namespace,
			Name:        ClaimName(sv.Name),
			Labels:      labels,
			Annotations: annotations,
			// The SharedVolume's finalizer makes sure that the claim is deleted first. But somebody may remove it, or the
			// SharedVolume may be deleted before it is added. Then Kubernetes' garbage collector deletes the claim.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "SharedVolume", Name: sv.Name, UID: sv.UID}},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:        corev1.VolumeResourceRequirements{Requests: size.DeepCopy()},
			Selector:         &metav1.LabelSelector{MatchLabels: map[string]string{OwnerUIDLabel: string(sv.UID)}},
			StorageClassName: &noClass,
			VolumeMode:       &filesystem,
		},
	}
}

// desiredVolume returns the desired volume of a SharedVolume, under the given name and reserved for its claim.
func desiredVolume(sv *v1alpha1.SharedVolume, name string, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	labels, annotations := ownerMeta(sv)
	filesystem, class := corev1.PersistentVolumeFilesystem, ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Capacity:                      size.DeepCopy(),
			ClaimRef:                      reservation(claim),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			StorageClassName:              class,
			VolumeMode:                    &filesystem,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver:       DriverName,
				VolumeHandle: handle(sv.Spec),
			}},
		},
	}
}

// reservation returns the reference that reserves a volume for one claim, and not for a later one of the same name.
func reservation(claim *corev1.PersistentVolumeClaim) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1",
		Kind:       "PersistentVolumeClaim",
		Namespace:  claim.Namespace,
		Name:       claim.Name,
		UID:        claim.UID,
	}
}
