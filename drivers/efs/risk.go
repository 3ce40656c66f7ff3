package efs

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// sharedDirectory returns the risk of a StorageClass whose access points share a directory: when the driver deletes an access point, it
// also deletes the directory and everything in it.
func sharedDirectory(class *storagev1.StorageClass) string {
	pattern, has := class.Parameters["subPathPattern"]
	deletes := class.ReclaimPolicy == nil || *class.ReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	names := strings.Contains(pattern, "${.PV.name}") || strings.Contains(pattern, "${.PVC.name}") && strings.Contains(pattern, "${.PVC.namespace}")
	if class.Parameters["provisioningMode"] != "efs-ap" || !has || class.Parameters["ensureUniqueDirectory"] != "false" || !deletes || names {
		return ""
	}
	return "its volumes can share a directory, and the deletion of the first claim deletes the files of all"
}
