package efs

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"github.com/blang/semver/v4"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

const (
	// VersionEnv is the environment variable of the operator that says which version of the driver is in the image.
	VersionEnv = "DRIVER_VERSION"
	// DefaultVersion is the version in the default image. Its parser of tags knows no escapes: it splits the list at
	// each space, and each word at each colon. It drops the part of a word after a second colon. A word without a colon
	// makes it drop all tags.
	DefaultVersion = "2.1.11"
)

// The driver sets this tag on all access points that it creates. The policy in the CredentialsRequest allows no changes
// of tags on other access points.
const MarkKey, MarkValue = "efs.csi.aws.com/cluster", "true"

// escapesFrom is the oldest version that is known to take spaces and colons after a backslash.
var escapesFrom = semver.MustParse("3.4.1")

// tagAccessPoints makes the driver tag each access point that it creates: with the tags that the cluster wants on all
// its resources, and with the tag by which the installer finds the cluster's resources when it destroys the cluster.
func tagAccessPoints(cluster drivers.Cluster, container *corev1.Container) (leftOut []string) {
	version := cmp.Or(cluster.Environment[VersionEnv], DefaultVersion)
	tags, leftOut := ClusterTags(cluster.Infrastructure, func(tag configv1.AWSResourceTag) string {
		if why := unsayable(tag, version); why != "" {
			return why + ". The operator sets it later, if it has credentials for tags"
		}
		return ""
	})
	var words []string
	for _, tag := range tags {
		words = append(words, tagWord(tag))
	}
	// This tag must be the last one: the driver trims spaces from the end of the list, even an escaped one, and would
	// then reject the whole list.
	words = append(words, tagWord(OwnerTag(cluster.Infrastructure)))
	container.Args = append(container.Args, "--tags="+strings.Join(words, " "))
	return leftOut
}

// OwnerTag returns the tag by which the installer finds the cluster's resources when it destroys the cluster.
func OwnerTag(infrastructure *configv1.Infrastructure) configv1.AWSResourceTag {
	return configv1.AWSResourceTag{Key: "kubernetes.io/cluster/" + infrastructure.Status.InfrastructureName, Value: "owned"}
}

// ClusterTags returns the tags that the cluster wants on all its resources and that an access point can have, and a sentence about every
// tag that it leaves out. problem returns a further reason to leave out a tag, or "".
func ClusterTags(infrastructure *configv1.Infrastructure, problem func(configv1.AWSResourceTag) string) (tags []configv1.AWSResourceTag, leftOut []string) {
	taken := map[string]bool{OwnerTag(infrastructure).Key: true}
	return drivers.AWSTags(infrastructure, "new access points", func(tag configv1.AWSResourceTag) string {
		if problem := cmp.Or(untaggable(tag), problem(tag)); problem != "" {
			return problem
		}
		if taken[tag.Key] {
			return "there is another tag with this key"
		}
		taken[tag.Key] = true
		return ""
	})
}

// untaggable returns why an access point cannot have a tag, or "" if it can. One bad tag would affect the others: AWS then refuses to
// create the access point.
func untaggable(tag configv1.AWSResourceTag) string {
	switch {
	case strings.HasPrefix(strings.ToLower(tag.Key), "aws:"):
		return "AWS reserves keys that begin with aws:"
	case tag.Key == MarkKey:
		return "the driver sets this tag itself"
	}
	for _, r := range tag.Key + tag.Value {
		// The patterns of a Tag in the EFS API.
		if !unicode.In(r, unicode.L, unicode.Z, unicode.N) && !strings.ContainsRune("_.:/=+-@", r) {
			return fmt.Sprintf("EFS does not allow the character %q in a tag", r)
		}
	}
	return ""
}

// unsayable returns why a version of the driver cannot set a tag, or "" if it can.
func unsayable(tag configv1.AWSResourceTag, version string) string {
	parsed, err := semver.ParseTolerant(version)
	escapes := err == nil && parsed.GE(escapesFrom)
	for _, r := range tag.Key + tag.Value {
		switch {
		case r > unicode.MaxASCII: // the driver miscounts escaped characters after any multi-byte character
			return fmt.Sprintf("the driver does not accept the character %q", r)
		case !escapes && (r == ' ' || r == ':'):
			return fmt.Sprintf("version %s of the driver does not accept the character %q in a tag, but version %s does. "+
				"If the driver's image is that new, set the operator's environment variable %s to its version", version, r, escapesFrom, VersionEnv)
		}
	}
	return ""
}

var (
	escapeColons = strings.NewReplacer(":", `\:`)
	escapeSpaces = strings.NewReplacer(`\`, `\\`, " ", `\ `)
)

// tagWord returns a tag in the syntax of the driver. The driver splits its list at spaces and unescapes each word, then splits the word
// at the colon and unescapes again. No tag contains a backslash. If a word needs no escapes, versions without escapes read it in the same
// way.
func tagWord(tag configv1.AWSResourceTag) string {
	return escapeSpaces.Replace(escapeColons.Replace(tag.Key) + ":" + escapeColons.Replace(tag.Value))
}
