package gcppd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// labelsFlag passes the labels of disks to the driver. In the asset, it has the label by which the installer finds the
// cluster's resources.
const labelsFlag = "--extra-labels="

// labelDisks makes the driver give each disk that it creates the labels that the cluster wants on all its resources, and
// each disk, snapshot and image the tags.
func labelDisks(cluster drivers.Cluster, container *corev1.Container) (leftOut []string) {
	platform := platformOf(cluster)
	for i, arg := range container.Args {
		if strings.HasPrefix(arg, labelsFlag) {
			container.Args[i] = strings.Join(append([]string{arg}, labels(platform)...), ",")
		}
	}
	tags, leftOut := tags(platform)
	if len(tags) > 0 {
		container.Args = append(container.Args, "--extra-tags="+strings.Join(tags, ","))
	}
	return leftOut
}

// labelSnapshots gives each snapshot of a class the disks' labels, because the driver has no flag for that.
func labelSnapshots(cluster drivers.Cluster) map[string]string {
	owned := "kubernetes-io-cluster-" + cluster.Infrastructure.Status.InfrastructureName + "=owned"
	return map[string]string{"labels": strings.Join(append([]string{owned}, labels(platformOf(cluster))...), ",")}
}

// platformOf returns the Google Cloud part of the Infrastructure; empty on another platform.
func platformOf(cluster drivers.Cluster) configv1.GCPPlatformStatus {
	platform := cluster.Infrastructure.Status.PlatformStatus
	if platform == nil || platform.GCP == nil {
		return configv1.GCPPlatformStatus{}
	}
	return *platform.GCP
}

// labels returns the labels that the cluster wants, sorted. The driver accepts all labels that the API accepts.
func labels(platform configv1.GCPPlatformStatus) []string {
	var words []string
	for _, label := range platform.ResourceLabels {
		words = append(words, label.Key+"="+label.Value)
	}
	slices.Sort(words)
	return words
}

// tags returns the tags that the cluster wants, sorted, and a sentence about each tag that the driver cannot set,
// because it splits its list at commas.
func tags(platform configv1.GCPPlatformStatus) (words, leftOut []string) {
	sorted := slices.SortedFunc(slices.Values(platform.ResourceTags), func(a, b configv1.GCPResourceTag) int {
		return cmp.Or(cmp.Compare(a.ParentID, b.ParentID), cmp.Compare(a.Key, b.Key))
	})
	for _, tag := range sorted {
		if strings.Contains(tag.Value, ",") {
			leftOut = append(leftOut, fmt.Sprintf("Infrastructure cluster, status.platformStatus.gcp.resourceTags: "+
				"disks do not get the tag %s/%s with the value %q: the driver does not accept the character ','.", tag.ParentID, tag.Key, tag.Value))
			continue
		}
		words = append(words, tag.ParentID+"/"+tag.Key+"/"+tag.Value)
	}
	return words, leftOut
}
