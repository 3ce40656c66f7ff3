package efs

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

var (
	// plain is a version of the driver without escapes in its list of tags, and escaping is one with.
	plain, escaping = "2.1.11", "3.4.1"
	// parsers read a list of tags as versions of the driver do.
	parsers = map[string]func(string) map[string]string{plain: readPlainTags, escaping: readTags}
)

// A tagCase has tags of the cluster, and what becomes of them.
type tagCase struct {
	name    string
	tags    []string                     // keys and values, alternating
	want    map[string]map[string]string // the tags that the driver reads, besides the cluster's tag, by version; nil for the tags
	leftOut map[string][]string          // a fragment of each sentence, by version
}

var tagCases = []tagCase{
	{name: "none"},
	{name: "simple", tags: []string{"team", "storage"}},
	{name: "spaces", tags: []string{"cost centre", "north west 7"}, leftOut: onlyPlain(`' '`)},
	{name: "colons", tags: []string{"a:b:c", "d:e"}, leftOut: onlyPlain(`':'`)},
	{name: "spaces at the ends", tags: []string{" a ", " b ", "z ", " "}, leftOut: onlyPlain(`" a "`, `"z "`)},
	{name: "colons at the ends", tags: []string{":a:", ":b:", ":", ":"}, leftOut: onlyPlain(`":"`, `":a:"`)},
	{name: "both at once, and one with neither", tags: []string{"a: b", ": :", "x", "1"}, leftOut: onlyPlain(`"a: b"`),
		want: map[string]map[string]string{plain: {"x": "1"}, escaping: {"a: b": ": :", "x": "1"}}},
	{name: "all that EFS allows", tags: []string{"aZ0_./=+-@", "x"}},
	{name: "what only OpenShift allows", tags: []string{"a,b", "1", "c", "2;3", "<d>", "4", "e?", "5", "f", "6"},
		want: same(map[string]string{"f": "6"}), leftOut: always(`'<'`, `','`, `';'`, `'?'`)},
	{name: "backslashes", tags: []string{`a\`, "1", "b", `\`, "c", "2"}, want: same(map[string]string{"c": "2"}), leftOut: always(`'\\'`, `'\\'`)},
	{name: "no value", tags: []string{"a", ""}},
	{name: "reserved", tags: []string{"aws-x", "0", "aws:x", "1", "AWS:y", "2", "awsome", "3", "efs.csi.aws.com/cluster", "false"},
		want: same(map[string]string{"aws-x": "0", "awsome": "3"}), leftOut: always(`"AWS:y"`, `"aws:x"`, `"efs.csi.aws.com/cluster"`)},
	{name: "beyond ASCII", tags: []string{"name", "Zoë", "price", "$(PATH)", "tab\there", "x", "z", "1"},
		want: same(map[string]string{"z": "1"}), leftOut: always(`'ë'`, `'$'`, `'\t'`)},
	{name: "the same key twice", tags: []string{"b", "1", "a", "2", "b", "3"},
		want: same(map[string]string{"a": "2", "b": "1"}), leftOut: always(`"b" with the value "3"`)},
	{name: "ours", tags: []string{"kubernetes.io/cluster/harbour-x1", "shared", "kubernetes.io/cluster/other", "shared"},
		want:    same(map[string]string{"kubernetes.io/cluster/other": "shared"}),
		leftOut: always(`"kubernetes.io/cluster/harbour-x1" with the value "shared"`)},
}

func same(tags map[string]string) map[string]map[string]string {
	return map[string]map[string]string{plain: tags, escaping: tags}
}

func always(fragments ...string) map[string][]string {
	return map[string][]string{plain: fragments, escaping: fragments}
}

func onlyPlain(fragments ...string) map[string][]string { return map[string][]string{plain: fragments} }

// expected returns the tags that a version of the driver reads.
func (tc tagCase) expected(version string) map[string]string {
	tags := map[string]string{"kubernetes.io/cluster/harbour-x1": "owned"}
	if tc.want != nil {
		maps.Copy(tags, tc.want[version])
	} else if tc.leftOut[version] == nil {
		for i := 0; i < len(tc.tags); i += 2 {
			tags[tc.tags[i]] = tc.tags[i+1]
		}
	}
	return tags
}

// list returns the list of tags for a version of the driver.
func (tc tagCase) list(t *testing.T, version string) (list string, leftOut []string) {
	t.Helper()
	container := &corev1.Container{Args: []string{"--v=2"}}
	cluster := tagged(tc.tags)
	cluster.Environment = map[string]string{VersionEnv: version}
	leftOut = tagAccessPoints(cluster, container)
	if len(container.Args) != 2 || container.Args[0] != "--v=2" {
		t.Fatalf("arguments %q, want one added", container.Args)
	}
	list, ok := strings.CutPrefix(container.Args[1], "--tags=")
	require.Truef(t, ok, "added %s, want --tags", container.Args[1])
	return list, leftOut
}

func TestTagAccessPoints(t *testing.T) {
	for version, read := range parsers {
		for _, tc := range tagCases {
			t.Run(version+": "+tc.name, func(t *testing.T) {
				list, leftOut := tc.list(t, version)
				assert.Emptyf(t, cmp.Diff(tc.expected(version), read(list)), "the driver reads other tags from %s (-want +got)", list)
				require.Len(t, leftOut, len(tc.leftOut[version]), "left out")
				for i, part := range tc.leftOut[version] {
					assert.Contains(t, leftOut[i], part, "left out")
				}
			})
		}
	}
}

// TestTagsOfUnknownVersions: a tag is given to the driver only if its version is known to read it.
func TestTagsOfUnknownVersions(t *testing.T) {
	for version, said := range map[string]bool{"": false, "v3.4.1": true, "3.5": true, "4.0.0": true, "2.1.12": false, "3.4.0": false, "latest": false} {
		tc := tagCase{tags: []string{"a:b", "c d"}}
		if list, leftOut := tc.list(t, version); (len(leftOut) == 0) != said {
			t.Errorf("version %q: the list is %s, left out is %q; want that the tag is given: %v", version, list, leftOut, said)
		}
	}
}

// TestTagsHaveOneOrder: reordering the tags changes nothing, and must not roll pods.
func TestTagsHaveOneOrder(t *testing.T) {
	one, other := &corev1.Container{}, &corev1.Container{}
	tagAccessPoints(tagged([]string{"c", "3", "a", "1", "b", "2"}), one)
	tagAccessPoints(tagged([]string{"b", "2", "c", "3", "a", "1"}), other)
	assert.Empty(t, cmp.Diff(one.Args, other.Args), "(-one +other)")
}

func TestTagsElsewhere(t *testing.T) {
	cluster := tagged(nil)
	cluster.Infrastructure.Status.PlatformStatus = nil
	container := &corev1.Container{}
	tagAccessPoints(cluster, container)
	assert.Empty(t, cmp.Diff([]string{"--tags=kubernetes.io/cluster/harbour-x1:owned"}, container.Args), "arguments (-want +got)")
}

func tagged(pairs []string) drivers.Cluster {
	aws := &configv1.AWSPlatformStatus{}
	for i := 0; i < len(pairs); i += 2 {
		aws.ResourceTags = append(aws.ResourceTags, configv1.AWSResourceTag{Key: pairs[i], Value: pairs[i+1]})
	}
	return drivers.Cluster{Infrastructure: &configv1.Infrastructure{Status: configv1.InfrastructureStatus{
		InfrastructureName: "harbour-x1", PlatformStatus: &configv1.PlatformStatus{Type: configv1.AWSPlatformType, AWS: aws},
	}}}
}

// readPlainTags reads a list by the grammar of the driver, version 2.1.11: it trims the list and splits it into words at
// spaces. The key and the value are the first two parts of a word that colons separate, and other parts are lost. A word
// of one part loses all tags.
func readPlainTags(list string) map[string]string {
	tags := map[string]string{}
	for word := range strings.SplitSeq(strings.TrimSpace(list), " ") {
		parts := strings.Split(word, ":")
		if len(parts) < 2 {
			return nil
		}
		tags[parts[0]] = parts[1]
	}
	return tags
}

// readTags reads a list by the grammar of the driver, version 3.4.1: it trims the list, splits it into words at
// spaces, and splits each word into key and value at the colon. A word without a colon is a key, and one with several is
// lost.
func readTags(list string) map[string]string {
	tags := map[string]string{}
	for _, word := range part(strings.TrimSpace(list), ' ') {
		switch pair := part(word, ':'); len(pair) {
		case 1:
			tags[pair[0]] = ""
		case 2:
			tags[pair[0]] = pair[1]
		}
	}
	return tags
}

// part splits a text and unescapes backslashes and the separator. A backslash at the end loses all parts.
func part(text string, at byte) []string {
	parts := []string{""}
	for i := 0; i < len(text); i++ {
		last := &parts[len(parts)-1]
		switch c := text[i]; {
		case c == at:
			parts = append(parts, "")
		case c == '\\' && i+1 == len(text):
			return nil
		case c == '\\' && (text[i+1] == at || text[i+1] == '\\'):
			i++
			*last += text[i : i+1]
		default:
			*last += text[i : i+1]
		}
	}
	return parts
}
