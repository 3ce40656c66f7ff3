// Package community creates the objects that the last version of the community's aws-efs-operator, 0.0.8, leaves in a
// cluster: the initial state of an adoption.
package community

import (
	"embed"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

//go:embed objects
var files embed.FS

// ownedLabel is on all objects that the operator created.
const ownedLabel = "openshift.io/aws-efs-operator-owned"

// OperatorImage is the repository of the operator's image.
const OperatorImage = "quay.io/app-sre/aws-efs-operator"

// LaterImages maps the repositories of the driver's images to others, which have later versions of the same programs.
var LaterImages = map[string]string{
	"registry.hub.docker.com/amazon/aws-efs-csi-driver": "quay.io/openshift/origin-aws-efs-csi-driver",
	"quay.io/k8scsi/csi-node-driver-registrar":          "quay.io/openshift/origin-csi-node-driver-registrar",
	"quay.io/k8scsi/livenessprobe":                      "quay.io/openshift/origin-csi-livenessprobe",
}

// FileSystem and AccessPoint are the same in all SharedVolumes.
const FileSystem, AccessPoint = "fs-0123cdef", "fsap-00000000000000000"

// Driver returns the objects of the driver, which the operator created in its own namespace. owner, the CustomResourceDefinition of
// SharedVolumes, becomes their owner, unless it is nil.
func Driver(namespace string, owner client.Object) ([]*unstructured.Unstructured, error) {
	assets, err := fs.Sub(files, "objects")
	if err != nil {
		return nil, err
	}
	manifests, err := drivers.Driver{Name: "community", Assets: assets}.Manifests(drivers.Values{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, m := range manifests {
		if owner != nil {
			m.Object.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: owner.GetName(), UID: owner.GetUID()}})
		}
		objects = append(objects, m.Object)
	}
	return objects, nil
}

// Share returns a SharedVolume that is Ready, and the volume and claim that the operator created for it. The
// SharedVolume's status must be written separately.
func Share(namespace, name string) (*sharedvolume.SharedVolume, *corev1.PersistentVolume, *corev1.PersistentVolumeClaim) {
	class, mode := "efs-sc", corev1.PersistentVolumeFilesystem
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	labels := map[string]string{
		ownedLabel: "true",
		"openshift.io/aws-efs-operator-shared-volume-owner-name":      name,
		"openshift.io/aws-efs-operator-shared-volume-owner-namespace": namespace,
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pvc-" + name, Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &class, VolumeMode: &mode, VolumeName: "pv-" + namespace + "-" + name,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName, Labels: labels},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: size, StorageClassName: class, VolumeMode: &mode,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "efs.csi.aws.com", VolumeHandle: FileSystem + "::" + AccessPoint}},
		},
	}
	shared := &sharedvolume.SharedVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{"finalizer.awsefs.managed.openshift.io"}},
		Spec:       sharedvolume.SharedVolumeSpec{FileSystemID: FileSystem, AccessPointID: AccessPoint},
		Status: sharedvolume.SharedVolumeStatus{
			Phase:    sharedvolume.Ready,
			ClaimRef: corev1.TypedLocalObjectReference{APIGroup: new(""), Kind: "PersistentVolumeClaim", Name: claim.Name},
		},
	}
	return shared, volume, claim
}
