package efs

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// sharedDirectory returns the risk of a StorageClass whose access points share a directory: when the driver deletes an access point, it
// also deletes the directory and everything in it. Those who share an access point are the same user there, whatever the reclaim policy is,
// and so may be those who share a directory.
func sharedDirectory(class *storagev1.StorageClass) string {
	pattern, has := class.Parameters["subPathPattern"]
	deletes := class.ReclaimPolicy == nil || *class.ReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	shares := has && isRead(class.Parameters["ensureUniqueDirectory"], false) && !isOfOneClaim(pattern)
	switch {
	case class.Parameters["provisioningMode"] != "efs-ap":
		return ""
	case isRead(class.Parameters["reuseAccessPoint"], true) && !deletes:
		return "claims of the same name share an access point, in whatever namespaces they are, so that any team can read, change and delete the files of another's claim"
	case isRead(class.Parameters["reuseAccessPoint"], true):
		return "claims of the same name share an access point, in whatever namespaces they are, and the deletion of the first claim deletes the files of all"
	case shares && letsIn(class.Parameters) && !deletes:
		return "its volumes can share a directory, and uid, gid or directoryPerms let all users of that in, so that any team can reach the files of another's claim"
	case shares && letsIn(class.Parameters):
		return "its volumes can share a directory, and uid, gid or directoryPerms let all users of that in, so that any team can reach the files of another's claim, and the deletion of the first claim deletes the files of all"
	case shares && deletes:
		return "its volumes can share a directory, and the deletion of the first claim deletes the files of all"
	}
	return ""
}

// letsIn reports whether access points that share a directory let the users of one reach the files of another: they have the same user, or the
// permissions of the directory are for others, too. Otherwise each access point has a user and a group of its own.
func letsIn(parameters map[string]string) bool {
	mode, err := strconv.ParseUint(parameters["directoryPerms"], 8, 32)
	return parameters["uid"] != "" || err != nil || mode&0o007 != 0 || parameters["gid"] != "" && mode&0o070 != 0
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
