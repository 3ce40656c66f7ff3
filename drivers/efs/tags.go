package efs

import (
	"fmt"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// tagAccessPoints makes the driver tag each access point that it creates: with the tags that the cluster wants on all
// its resources, and with the tag by which the installer finds the cluster's resources when it destroys the cluster.
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
	// This tag must be the last one: the driver trims spaces from the end of the list, even an escaped one, and would
	// then reject the whole list.
	words = append(words, tagWord(owner))
	container.Args = append(container.Args, "--tags="+strings.Join(words, " "))
	return leftOut
}

// untaggable says why an access point cannot have a tag, or "" if it can. One bad tag would affect the others: the
// driver miscounts escaped characters after any multi-byte character, and AWS refuses to create an access point with
// a reserved key.
func untaggable(tag configv1.AWSResourceTag) string {
	if strings.HasPrefix(strings.ToLower(tag.Key), "aws:") {
		return "AWS reserves keys that begin with aws:"
	}
	for _, r := range tag.Key + tag.Value {
		// Kubernetes would expand a dollar sign as the beginning of a variable.
		if r < ' ' || r > '~' || r == '$' {
			return fmt.Sprintf("the driver cannot be given the character %q", r)
		}
	}
	return ""
}

// The driver takes one of these characters, or a backslash, literally after a backslash.
var (
	escapeColons = strings.NewReplacer(`\`, `\\`, ":", `\:`)
	escapeSpaces = strings.NewReplacer(`\`, `\\`, " ", `\ `)
)

// tagWord returns a tag in the syntax of the driver, version 3.4: it splits its list at spaces and unescapes each
// word, then splits the word at the colon and unescapes again.
func tagWord(tag configv1.AWSResourceTag) string {
	return escapeSpaces.Replace(escapeColons.Replace(tag.Key) + ":" + escapeColons.Replace(tag.Value))
}
