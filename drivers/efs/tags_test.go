package efs

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

func TestTagAccessPoints(t *testing.T) {
	owned := func(more map[string]string) map[string]string {
		tags := map[string]string{"kubernetes.io/cluster/harbour-x1": "owned"}
		maps.Copy(tags, more)
		return tags
	}
	for _, tc := range []struct {
		name    string
		tags    []string // keys and values, alternating
		want    map[string]string
		leftOut []string // a fragment of each
	}{
		{name: "none", want: owned(nil)},
		{name: "plain", tags: []string{"team", "storage"}, want: owned(map[string]string{"team": "storage"})},
		{name: "spaces", tags: []string{"cost centre", "north west 7"}, want: owned(map[string]string{"cost centre": "north west 7"})},
		{name: "colons", tags: []string{"a:b:c", "d:e"}, want: owned(map[string]string{"a:b:c": "d:e"})},
		{name: "spaces at the ends", tags: []string{" a ", " b ", "z ", " "}, want: owned(map[string]string{" a ": " b ", "z ": " "})},
		{name: "colons at the ends", tags: []string{":a:", ":b:", ":", ":"}, want: owned(map[string]string{":a:": ":b:", ":": ":"})},
		{name: "both at once", tags: []string{"a: b", ": :"}, want: owned(map[string]string{"a: b": ": :"})},
		{name: "backslashes", tags: []string{`a\`, `\`, `\:\`, `\ \\`}, want: owned(map[string]string{`a\`: `\`, `\:\`: `\ \\`})},
		{name: "all that the API allows", tags: []string{"aZ0_.:/=+-@ ,;<>?", "x"}, want: owned(map[string]string{"aZ0_.:/=+-@ ,;<>?": "x"})},
		{name: "no value", tags: []string{"a", ""}, want: owned(map[string]string{"a": ""})},
		{
			name: "reserved", tags: []string{"aws:x", "1", "AWS:y", "2", "awsome", "3"},
			want: owned(map[string]string{"awsome": "3"}), leftOut: []string{`"AWS:y"`, `"aws:x"`},
		},
		{
			name: "beyond ASCII", tags: []string{"name", "Zoë", "price", "$(PATH)", "tab\there", "x", "z", "1"},
			want: owned(map[string]string{"z": "1"}), leftOut: []string{`'ë'`, `'$'`, `'\t'`},
		},
		{
			name: "the same key twice", tags: []string{"b", "1", "a", "2", "b", "3"},
			want: owned(map[string]string{"a": "2", "b": "1"}), leftOut: []string{`"b" with the value "3"`},
		},
		{
			name: "ours", tags: []string{"kubernetes.io/cluster/harbour-x1", "shared", "kubernetes.io/cluster/other", "shared"},
			want:    owned(map[string]string{"kubernetes.io/cluster/other": "shared"}),
			leftOut: []string{`"kubernetes.io/cluster/harbour-x1" with the value "shared"`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			container := &corev1.Container{Args: []string{"--v=2"}}
			leftOut := tagAccessPoints(tagged(tc.tags), container)
			if len(container.Args) != 2 || container.Args[0] != "--v=2" {
				t.Fatalf("arguments %q, want one added", container.Args)
			}
			list, ok := strings.CutPrefix(container.Args[1], "--tags=")
			if !ok {
				t.Fatalf("added %s, want --tags", container.Args[1])
			}
			got, err := readTags(list)
			if err != nil {
				t.Fatalf("the driver cannot read %s: %v", list, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the driver reads other tags from %s (-want +got):\n%s", list, diff)
			}
			if len(leftOut) != len(tc.leftOut) {
				t.Fatalf("left out %q, want %d sentences", leftOut, len(tc.leftOut))
			}
			for i, part := range tc.leftOut {
				if !strings.Contains(leftOut[i], part) {
					t.Errorf("left out %q, want %s in it", leftOut[i], part)
				}
			}
		})
	}
}

// TestTagsHaveOneOrder: reordering the tags changes nothing, and must not roll pods.
func TestTagsHaveOneOrder(t *testing.T) {
	one, other := &corev1.Container{}, &corev1.Container{}
	tagAccessPoints(tagged([]string{"c", "3", "a", "1", "b", "2"}), one)
	tagAccessPoints(tagged([]string{"b", "2", "c", "3", "a", "1"}), other)
	if diff := cmp.Diff(one.Args, other.Args); diff != "" {
		t.Errorf("(-one +other):\n%s", diff)
	}
}

func TestTagsElsewhere(t *testing.T) {
	cluster := tagged(nil)
	cluster.Infrastructure.Status.PlatformStatus = nil
	container := &corev1.Container{}
	tagAccessPoints(cluster, container)
	if diff := cmp.Diff([]string{"--tags=kubernetes.io/cluster/harbour-x1:owned"}, container.Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
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

// readTags reads a list by the grammar of the driver, version 3.4.1: it trims the list, splits it into words at
// spaces, and splits each word into key and value at the colon. Both splits unescape first backslashes, then their
// separator. A backslash at the end of the input is an error.
func readTags(list string) (map[string]string, error) {
	tags := map[string]string{}
	words, err := part(strings.TrimSpace(list), ' ')
	if err != nil {
		return nil, err
	}
	for _, word := range words {
		pair, err := part(word, ':')
		if err != nil {
			return nil, err
		}
		if len(pair) != 2 {
			return nil, errors.New("not a pair: " + word)
		}
		tags[pair[0]] = pair[1]
	}
	return tags, nil
}

func part(text string, at byte) ([]string, error) {
	parts := []string{""}
	for i := 0; i < len(text); i++ {
		last := &parts[len(parts)-1]
		switch c := text[i]; {
		case c == at:
			parts = append(parts, "")
		case c == '\\' && i+1 == len(text):
			return nil, errors.New("a backslash at the end of " + text)
		case c == '\\' && (text[i+1] == at || text[i+1] == '\\'):
			i++
			*last += text[i : i+1]
		default:
			*last += text[i : i+1]
		}
	}
	return parts, nil
}
