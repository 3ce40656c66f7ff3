package ebs

import (
	"fmt"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// tagVolumes makes the driver tag each volume and snapshot that it creates with the tags that the cluster wants on
// all its resources. The driver itself adds the tag by which the installer finds the cluster's resources: it knows
// the cluster's name from another argument.
func tagVolumes(cluster drivers.Cluster, container *corev1.Container) (leftOut []string) {
	tags, leftOut := drivers.AWSTags(cluster.Infrastructure, "volumes", untaggable)
	var words []string
	for _, tag := range tags {
		words = append(words, tag.Key+"="+tag.Value)
	}
	if len(words) > 0 {
		container.Args = append(container.Args, "--extra-tags="+strings.Join(words, ","))
	}
	return leftOut
}

// reservedKeys are prefixes of the tags that the driver sets itself. It exits if a given tag has one of them.
var reservedKeys = []string{"aws:", "kubernetes.io", "ebs.csi.aws.com", "CSIVolumeName", "CSIVolumeSnapshotName"}

// untaggable says why a volume cannot have a tag, or "" if it can. The driver does not start if it cannot parse its
// list of tags.
func untaggable(tag configv1.AWSResourceTag) string {
	for _, reserved := range reservedKeys {
		if strings.HasPrefix(tag.Key, reserved) {
			return "AWS and the driver reserve keys that begin with " + reserved
		}
	}
	// The driver splits its list at commas outside of quotes, and each word at the first equals sign. Kubernetes
	// would expand a dollar sign as the beginning of a variable.
	for _, part := range []struct{ text, forbidden string }{{tag.Key, `,"$=`}, {tag.Value, `,"$`}} {
		if i := strings.IndexAny(part.text, part.forbidden); i >= 0 {
			return fmt.Sprintf("the driver cannot be given the character %q", part.text[i])
		}
	}
	return ""
}
