package page

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

var yamlBlock = regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```$")

// Objects returns the objects of the only YAML block of a page, by kind, with other names.
func Objects(t testing.TB, path string, names *strings.Replacer) map[string]*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	blocks := yamlBlock.FindAllStringSubmatch(string(content), -1)
	require.Lenf(t, blocks, 1, "%s has %d blocks of YAML, want one", path, len(blocks))
	objects := map[string]*unstructured.Unstructured{}
	for document := range strings.SplitSeq(blocks[0][1], "---\n") {
		object := &unstructured.Unstructured{}
		require.NoError(t, boundedyaml.UnmarshalStrict([]byte(names.Replace(document)), &object.Object), path)
		objects[object.GetKind()] = object
	}
	return objects
}
