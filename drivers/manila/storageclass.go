package manila

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// driverSecret is the Secret by which the driver finds out how to log in to the cloud. Volumes refer to it.
const driverSecret = "csi-manila-secrets"

// classes returns a StorageClass for each type of shares that Manila offers. Of types whose names come to
// the same name of a class, the first one gets it.
func classes(ctx context.Context, credentials map[string][]byte, namespace string) ([]storagev1.StorageClass, error) {
	types, err := shareTypes(ctx, credentials)
	if err != nil {
		return nil, err
	}
	slices.Sort(types)
	var found []storagev1.StorageClass
	taken := map[string]bool{}
	for _, shareType := range types {
		class := storageClass(shareType, namespace)
		if taken[class.Name] || len(validation.IsDNS1123Subdomain(class.Name)) > 0 {
			continue // volumes of it take a class that an administrator makes
		}
		taken[class.Name] = true
		found = append(found, class)
	}
	return found, nil
}

// storageClass returns the class of volumes that are shares of a type.
func storageClass(shareType, namespace string) storagev1.StorageClass {
	parameters := map[string]string{"type": shareType}
	for _, step := range []string{"provisioner", "controller-expand", "node-stage", "node-publish"} {
		parameters["csi.storage.k8s.io/"+step+"-secret-name"] = driverSecret
		parameters["csi.storage.k8s.io/"+step+"-secret-namespace"] = namespace
	}
	return storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: className(shareType)},
		Provisioner:          csiName,
		Parameters:           parameters,
		ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    ptr.To(storagev1.VolumeBindingImmediate),
		AllowVolumeExpansion: ptr.To(true),
	}
}

// className is the type's name as Kubernetes can have it.
func className(shareType string) string {
	return "csi-manila-" + strings.ReplaceAll(strings.ToLower(shareType), "_", "-")
}
