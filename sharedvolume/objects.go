package sharedvolume

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// Names that objects in clusters carry. The community operator used all but OwnerUIDLabel.
const (
	// Finalizer keeps a deleted SharedVolume until its claim and volume are gone.
	Finalizer = "finalizer.awsefs.managed.openshift.io"

	// OwnedLabel is "true" on each claim and volume that belongs to a SharedVolume.
	OwnedLabel = "openshift.io/aws-efs-operator-owned"
	// OwnerNamespaceLabel and OwnerNameLabel name the SharedVolume that a claim or volume belongs to. A name too long for a label is
	// shortened there; an annotation with the same key then has the full name.
	OwnerNamespaceLabel = "openshift.io/aws-efs-operator-shared-volume-owner-namespace"
	OwnerNameLabel      = "openshift.io/aws-efs-operator-shared-volume-owner-name"
	// OwnerUIDLabel is the UID of that SharedVolume; the selector of its claim uses it.
	OwnerUIDLabel = "openshift.io/aws-efs-operator-shared-volume-owner-uid"

	// DriverName is the CSI driver that mounts the volumes.
	DriverName = "efs.csi.aws.com"
)

// ClaimName returns the name of the claim of a SharedVolume: "pvc-<name>". If that is too long for an object, it is shortened
// and made unique by a hash.
func ClaimName(sharedVolume string) string {
	return shorten("pvc-"+sharedVolume, validation.DNS1123SubdomainMaxLength)
}

// volumeName returns the name of a new volume. The UID makes it unique in the cluster, so no tenant can choose the name of
// another namespace's volume.
func volumeName(sv *v1alpha1.SharedVolume) string { return volumeNamePrefix + string(sv.UID) }

const volumeNamePrefix = "sharedvolume-"

// communityVolumeName returns the name that the community operator gave a volume. Different
// SharedVolumes can share it: a-b/c and a/b-c both have pv-a-b-c.
func communityVolumeName(sv *v1alpha1.SharedVolume) string {
	return "pv-" + sv.Namespace + "-" + sv.Name
}

// handle returns the CSI volume handle of an access point.
func handle(spec v1alpha1.SharedVolumeSpec) string {
	return spec.FileSystemID + "::" + spec.AccessPointID
}

// mounts reports whether a CSI volume mounts the access point in spec. Early versions of the community operator put the access
// point into a mount option instead of the handle.
func mounts(volume *corev1.PersistentVolume, spec v1alpha1.SharedVolumeSpec) bool {
	switch volume.Spec.CSI.VolumeHandle {
	case handle(spec):
		return true
	case spec.FileSystemID:
		return slices.Contains(volume.Spec.MountOptions, "accesspoint="+spec.AccessPointID)
	default:
		return false
	}
}

// source describes a CSI volume's source for a message.
func source(volume *corev1.PersistentVolume) string {
	return strings.Join(append([]string{volume.Spec.CSI.VolumeHandle}, volume.Spec.MountOptions...), " ")
}

// ownerMeta returns the labels and annotations that a claim or volume of the SharedVolume carries.
func ownerMeta(sv *v1alpha1.SharedVolume) (labels, annotations map[string]string) {
	labels = map[string]string{
		OwnedLabel:          "true",
		OwnerNamespaceLabel: sv.Namespace,
		OwnerNameLabel:      shorten(sv.Name, validation.LabelValueMaxLength),
		OwnerUIDLabel:       string(sv.UID),
	}
	if labels[OwnerNameLabel] != sv.Name {
		annotations = map[string]string{OwnerNameLabel: sv.Name}
	}
	return labels, annotations
}

// ownerOf returns the SharedVolume that a claim or volume belongs to according to its labels. Anybody may write a
// label, so this decides only which SharedVolume to reconcile, never the ownership.
func ownerOf(object metav1.Object) types.NamespacedName {
	owner := types.NamespacedName{
		Namespace: object.GetLabels()[OwnerNamespaceLabel],
		Name:      object.GetLabels()[OwnerNameLabel],
	}
	if full := object.GetAnnotations()[OwnerNameLabel]; full != "" {
		owner.Name = full
	}
	return owner
}

// shorten returns a name of at most limit characters: the same if it is short enough, else its
// beginning and a hash of the whole.
func shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:5])
	// A name must not have "-" or "." next to a separator.
	return strings.TrimRight(name[:limit-len(hash)-1], "-.") + "-" + hash
}

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
			// The SharedVolume's finalizer makes sure that the claim is deleted first. But somebody may remove the finalizer, or the
			// SharedVolume may be deleted before the finalizer is added. Then Kubernetes' garbage collector deletes the claim.
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
