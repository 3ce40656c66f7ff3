package drivers

import (
	"cmp"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
)

// AWSTags returns the tags of the cluster's Infrastructure that a driver can set on the resources that it creates, and a sentence about
// each tag that it cannot set. The order of the tags is stable, because another order would roll the driver's pods. resources names what
// the driver creates, such as "volumes". problem returns why the driver cannot set a tag, or "" if it can.
func AWSTags(infrastructure *configv1.Infrastructure, resources string, problem func(configv1.AWSResourceTag) string) (tags []configv1.AWSResourceTag, leftOut []string) {
	for _, tag := range clusterAWSTags(infrastructure) {
		if why := problem(tag); why != "" {
			leftOut = append(leftOut, fmt.Sprintf("Infrastructure cluster, status.platformStatus.aws.resourceTags: "+
				"%s do not get the tag %q with the value %q: %s.", resources, tag.Key, tag.Value, why))
			continue
		}
		tags = append(tags, tag)
	}
	return tags, leftOut
}

// clusterAWSTags returns the tags that the cluster wants on all its AWS resources, sorted by key.
func clusterAWSTags(infrastructure *configv1.Infrastructure) []configv1.AWSResourceTag {
	platform := infrastructure.Status.PlatformStatus
	if platform == nil || platform.AWS == nil {
		return nil
	}
	return slices.SortedStableFunc(slices.Values(platform.AWS.ResourceTags), func(a, b configv1.AWSResourceTag) int {
		return cmp.Compare(a.Key, b.Key)
	})
}
