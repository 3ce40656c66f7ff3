package efs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// tagAccessPoints has the driver tag each access point that it creates: with the tags that the cluster
// wants on all its resources, and with the one by which the installer finds what belongs to a cluster
// when it destroys the cluster.
func tagAccessPoints(cluster drivers.Cluster, container *corev1.Container) (leftOut []string) {
	owner := configv1.AWSResourceTag{Key: "kubernetes.io/cluster/" + cluster.Infrastructure.Status.InfrastructureName, Value: "owned"}
	var words []string
	taken := map[string]bool{owner.Key: true}
	for _, tag := range resourceTags(cluster.Infrastructure) {
		problem := untaggable(tag)
		if problem == "" && taken[tag.Key] {
			problem = "there is another tag with this key"
		}
		if problem != "" {
			leftOut = append(leftOut, fmt.Sprintf("Infrastructure cluster, status.platformStatus.aws.resourceTags: "+
				"access points do not get the tag %q with the value %q: %s.", tag.Key, tag.Value, problem))
			continue
		}
		taken[tag.Key] = true
		words = append(words, tagWord(tag))
	}
	// This one comes last because the driver cuts spaces off the end, and of an escaped space, too,
	// which makes it lose all tags.
	words = append(words, tagWord(owner))
	container.Args = append(container.Args, "--tags="+strings.Join(words, " "))
	return leftOut
}

// resourceTags returns the tags that the cluster wants on its cloud resources, always in the same order.
func resourceTags(infrastructure *configv1.Infrastructure) []configv1.AWSResourceTag {
	platform := infrastructure.Status.PlatformStatus
	if platform == nil || platform.AWS == nil {
		return nil
	}
	return slices.SortedStableFunc(slices.Values(platform.AWS.ResourceTags), func(a, b configv1.AWSResourceTag) int {
		return cmp.Compare(a.Key, b.Key)
	})
}

// untaggable says why an access point cannot get a tag, or "" if it can. One such tag would cost more
// than itself: the driver loses count of escaped characters after any that takes more than a byte, and
// AWS refuses to create an access point with a reserved key.
func untaggable(tag configv1.AWSResourceTag) string {
	if strings.HasPrefix(strings.ToLower(tag.Key), "aws:") {
		return "AWS reserves keys that begin with aws:"
	}
	for _, r := range tag.Key + tag.Value {
		// Kubernetes would take a dollar sign for the beginning of a variable.
		if r < ' ' || r > '~' || r == '$' {
			return fmt.Sprintf("the driver cannot be given the character %q", r)
		}
	}
	return ""
}

// A backslash before one of these characters, or before another backslash, makes the driver take it as
// it is.
var (
	escapeColons = strings.NewReplacer(`\`, `\\`, ":", `\:`)
	escapeSpaces = strings.NewReplacer(`\`, `\\`, " ", `\ `)
)

// tagWord returns a tag as the driver, version 3.4, reads it: it parts its list at spaces, undoing the
// escapes of that step, and each word at the colon, undoing the escapes once more.
func tagWord(tag configv1.AWSResourceTag) string {
	return escapeSpaces.Replace(escapeColons.Replace(tag.Key) + ":" + escapeColons.Replace(tag.Value))
}
