package efs

import (
	"fmt"
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
	taken := map[string]bool{owner.Key: true}
	tags, leftOut := drivers.AWSTags(cluster.Infrastructure, "access points", func(tag configv1.AWSResourceTag) string {
		if problem := untaggable(tag); problem != "" {
			return problem
		}
		if taken[tag.Key] {
			return "there is another tag with this key"
		}
		taken[tag.Key] = true
		return ""
	})
	var words []string
	for _, tag := range tags {
		words = append(words, tagWord(tag))
	}
	// This one comes last because the driver cuts spaces off the end, and of an escaped space, too,
	// which makes it lose all tags.
	words = append(words, tagWord(owner))
	container.Args = append(container.Args, "--tags="+strings.Join(words, " "))
	return leftOut
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
