// Package awstags is about the tags that a cluster wants on all its AWS resources, for the drivers that make such
// resources.
package awstags

import (
	"cmp"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
)

// Fitting returns the tags that a driver can put on what it makes, such as "volumes", always in the same order,
// and a sentence about each of the others. The problem says why it cannot, or "" if it can.
func Fitting(infrastructure *configv1.Infrastructure, made string, problem func(configv1.AWSResourceTag) string) (fit []configv1.AWSResourceTag, leftOut []string) {
	for _, tag := range wanted(infrastructure) {
		if why := problem(tag); why != "" {
			leftOut = append(leftOut, fmt.Sprintf("Infrastructure cluster, status.platformStatus.aws.resourceTags: "+
				"%s do not get the tag %q with the value %q: %s.", made, tag.Key, tag.Value, why))
			continue
		}
		fit = append(fit, tag)
	}
	return fit, leftOut
}

// wanted returns the tags that the cluster wants, in the order of their keys.
func wanted(infrastructure *configv1.Infrastructure) []configv1.AWSResourceTag {
	platform := infrastructure.Status.PlatformStatus
	if platform == nil || platform.AWS == nil {
		return nil
	}
	return slices.SortedStableFunc(slices.Values(platform.AWS.ResourceTags), func(a, b configv1.AWSResourceTag) int {
		return cmp.Compare(a.Key, b.Key)
	})
}
