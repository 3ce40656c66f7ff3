package bundle

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/test/catalogs"
)

// strange is a bundle of an operator that this project does not know.
func strange(t *testing.T, csv string) *registryv1.Contents {
	t.Helper()
	dir := t.TempDir()
	catalogs.Write(t, filepath.Join(dir, "manifests", "csv.yaml"), csv)
	catalogs.Write(t, filepath.Join(dir, "manifests", "notes.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata: {image: 'quay.io/example/gadget:v2', other: 'my-quay.io/example/gadget:v2'}\n")
	catalogs.WriteAnnotations(t, dir, "gadget")
	contents, err := registryv1.Load(dir)
	require.NoError(t, err)
	return contents
}

const beginOfCSV = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: gadget.v0.2.0}\n"

// TestFollow: an image changes in all places, and images with similar names do not.
func TestFollow(t *testing.T) {
	b, err := Follow(strange(t, beginOfCSV+"spec:\n  version: 0.2.0\n  replaces: gadget.v0.1.0\n  relatedImages: [{name: manager, image: quay.io/example/gadget:v2}]\n"),
		map[string]string{"manager": "quay.io/example/gadget:v3"}, false)
	require.NoError(t, err)
	for path, want := range map[string][]string{
		"manifests/csv.yaml":   {"name: gadget.v0.2.1}", "version: 0.2.1\n  replaces: gadget.v0.2.0\n", "image: quay.io/example/gadget:v3}"},
		"manifests/notes.yaml": {"image: 'quay.io/example/gadget:v3'", "other: 'my-quay.io/example/gadget:v2'"},
	} {
		for _, part := range want {
			if !strings.Contains(string(b.File(path)), part) {
				t.Errorf("%s has no %q:\n%s", path, part, b.File(path))
			}
		}
	}
}

// TestFollowRefuses: the error names text that cannot be changed safely, and the remedy.
func TestFollowRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ csv, want string }{
		"no version in the name": {strings.Replace(beginOfCSV, "gadget.v0.2.0", "gadget", 1) + "spec: {version: 0.2.0, relatedImages: [{name: manager, image: a.io/b:v1}]}\n", "its name does not contain its version 0.2.0"},
		"flow style":             {beginOfCSV + "spec: {version: 0.2.0, relatedImages: [{name: manager, image: a.io/b:v1}]}\n", "line 4: nothing can be inserted after spec.version; change it by hand"},
		"an escape":              {strings.Replace(beginOfCSV, "gadget.v0.2.0", `"gadget\u002ev0.2.0"`, 1) + "spec:\n  version: 0.2.0\n  relatedImages: [{name: manager, image: a.io/b:v1}]\n", "line 3: metadata.name is not written as gadget.v0.2.0"},
		"no image":               {beginOfCSV + "spec: {version: 0.2.0}\n", "bundle gadget.v0.2.0 has no image manager"},
		"two of a name":          {beginOfCSV + "spec: {version: 0.2.0, relatedImages: [{name: manager, image: a.io/b:v1}, {name: manager, image: a.io/c:v1}]}\n", "has no image manager"},
	} {
		if b, err := Follow(strange(t, tc.csv), map[string]string{"manager": "a.io/b:v2"}, false); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, error %v, want one with %q", name, b, err, tc.want)
		}
	}
}
