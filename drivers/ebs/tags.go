package ebs

import (
	"fmt"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// tagVolumes has the driver tag each volume and snapshot that it creates with the tags that the cluster
// wants on all its resources. The tag by which the installer finds what belongs to a cluster is the
// driver's own affair: it is told the cluster's name.
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

// reservedKeys begin the keys of tags that the driver sets itself. It ends at once if it is told one.
var reservedKeys = []string{"aws:", "kubernetes.io", "ebs.csi.aws.com", "CSIVolumeName", "CSIVolumeSnapshotName"}

// untaggable says why a volume cannot get a tag, or "" if it can. One such tag would cost all volumes: the
// driver does not start with a list of tags that it cannot read.
func untaggable(tag configv1.AWSResourceTag) string {
	for _, reserved := range reservedKeys {
		if strings.HasPrefix(tag.Key, reserved) {
			return "AWS and the driver reserve keys that begin with " + reserved
		}
	}
	// The driver parts its list at commas outside of quotes, and each word at the first equals sign;
	// Kubernetes would take a dollar sign for the beginning of a variable.
	for _, part := range []struct{ text, forbidden string }{{tag.Key, `,"$=`}, {tag.Value, `,"$`}} {
		if i := strings.IndexAny(part.text, part.forbidden); i >= 0 {
			return fmt.Sprintf("the driver cannot be given the character %q", part.text[i])
		}
	}
	return ""
}
