package efs

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// sharedDirectory returns the risk of a StorageClass whose access points share a directory: when the driver deletes an access point, it
// also deletes the directory and everything in it. Those who share an access point are the same user there, whatever the reclaim policy is.
func sharedDirectory(class *storagev1.StorageClass) string {
	pattern, has := class.Parameters["subPathPattern"]
	deletes := class.ReclaimPolicy == nil || *class.ReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	switch {
	case class.Parameters["provisioningMode"] != "efs-ap":
		return ""
	case isRead(class.Parameters["reuseAccessPoint"], true) && !deletes:
		return "claims of the same name share an access point, in whatever namespaces they are, so that any team can read, change and delete the files of another's claim"
	case isRead(class.Parameters["reuseAccessPoint"], true):
		return "claims of the same name share an access point, in whatever namespaces they are, and the deletion of the first claim deletes the files of all"
	case deletes && has && isRead(class.Parameters["ensureUniqueDirectory"], false) && !isOfOneClaim(pattern):
		return "its volumes can share a directory, and the deletion of the first claim deletes the files of all"
	}
	return ""
}

// isRead reports whether the driver reads a parameter as this value.
func isRead(parameter string, as bool) bool {
	value, err := strconv.ParseBool(parameter)
	return err == nil && value == as
}

// claim matches a pattern with the namespace and the name of a claim, and between them a character that no namespace has. Otherwise, claim b of
// namespace shop-a can get the directory of claim a-b of namespace shop, and anybody may have a namespace of that name.
var claim = regexp.MustCompile(`\$\{\.PVC\.(namespace\}[^$]*[^$a-z0-9-][^$]*\$\{\.PVC\.name|name\}[^$]*[^$a-z0-9-][^$]*\$\{\.PVC\.namespace)\}`)

// isOfOneClaim reports whether a pattern gives each claim a directory of its own.
func isOfOneClaim(pattern string) bool {
	return !strings.Contains(pattern, "..") && (strings.Contains(pattern, "${.PV.name}") || claim.MatchString(pattern))
}
