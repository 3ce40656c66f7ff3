package azurefile

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// ofVolume in the name of a share stands for the name of the volume.
const ofVolume = "${pv.metadata.name}"

// sharedShare returns the risk of a StorageClass whose claims can share an Azure file share: with a claim, the driver deletes its share and
// everything in it. The name of a share tells namespaces and claims apart only by hyphens, which are in their names, too: claim b of namespace
// shop-a can get the share of claim a-b of namespace shop.
func sharedShare(class *storagev1.StorageClass) string {
	shares := false
	for name, value := range class.Parameters { // the driver reads a name whatever its case is
		shares = shares || strings.EqualFold(name, "shareName") && value != "" && !strings.Contains(value, ofVolume)
	}
	switch {
	case !shares:
		return ""
	case class.ReclaimPolicy == nil || *class.ReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return "its claims can share a file share, in whatever namespaces they are, so that any team can change the files of another's claim, and the deletion of the first claim deletes the files of all"
	}
	return "its claims can share a file share, in whatever namespaces they are, so that any team can read, change and delete the files of another's claim"
}
