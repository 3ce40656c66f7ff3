// Package controller asks Manila for its share types. The operator makes a StorageClass for each.
package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/controller"
	"github.com/berth-csi/berth/drivers/manila"
)

// New returns Manila's own code.
func New() controller.Own { return controller.Own{Classes: classes} }

// classes returns a StorageClass for each share type of Manila, and a sentence about each type that gets none. If
// several types need the same class name, the first one gets it.
func classes(ctx context.Context, cloud drivers.Cloud) (found []storagev1.StorageClass, leftOut []string, err error) {
	types, err := shareTypes(ctx, cloud)
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(types)
	if more := len(types) - drivers.MaxClasses; more > 0 {
		leftOut = append(leftOut, fmt.Sprintf("%d share types, such as %q, get no StorageClass: Manila has %d, and the operator makes classes for the first %d. "+
			"Check that the Secret %s names the right cloud, or make StorageClasses by hand.", more, types[drivers.MaxClasses], len(types), drivers.MaxClasses, manila.Driver.Backend.Secret))
		types = types[:drivers.MaxClasses]
	}
	owner := map[string]string{} // share types, by class name
	for _, shareType := range types {
		class := storageClass(shareType, cloud.Namespace)
		problem := ""
		if invalid := validation.IsDNS1123Subdomain(class.Name); len(invalid) > 0 {
			problem = fmt.Sprintf("%q cannot be the name of a StorageClass: %s", class.Name, invalid[0])
		} else if first, taken := owner[class.Name]; taken {
			problem = fmt.Sprintf("%s belongs to share type %q", class.Name, first)
		}
		if problem != "" {
			leftOut = append(leftOut, fmt.Sprintf("Share type %q gets no StorageClass: %s. Rename it in Manila, or make a StorageClass by hand: "+
				"like one of the others, but with the parameter type: %q.", shareType, strings.TrimSuffix(problem, "."), shareType))
			continue
		}
		owner[class.Name] = shareType
		found = append(found, class)
	}
	return found, leftOut, nil
}

// storageClass returns the StorageClass of a share type.
func storageClass(shareType, namespace string) storagev1.StorageClass {
	parameters := map[string]string{"type": shareType}
	for _, step := range []string{"provisioner", "controller-expand", "node-stage", "node-publish"} {
		parameters["csi.storage.k8s.io/"+step+"-secret-name"] = manila.DriverSecret
		parameters["csi.storage.k8s.io/"+step+"-secret-namespace"] = namespace
	}
	return storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: manila.ClassName(shareType)},
		Provisioner:          manila.Driver.CSIName,
		Parameters:           parameters,
		ReclaimPolicy:        new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    new(storagev1.VolumeBindingImmediate),
		AllowVolumeExpansion: new(true),
	}
}
