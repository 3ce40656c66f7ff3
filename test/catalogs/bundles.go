package catalogs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/oci"
)

// WriteBundle writes the folder of the smallest bundle, whose name is PACKAGE.vVERSION. Lines of YAML may be
// added to the spec of its ClusterServiceVersion.
func WriteBundle(t testing.TB, dir, pkg, version, spec string) {
	t.Helper()
	Write(t, filepath.Join(dir, "manifests", "csv.yaml"), fmt.Sprintf(`apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: %s.v%s}
spec:
  version: %[2]s
  description: Version %[2]s.
  install: {strategy: deployment, spec: {deployments: []}}
  %s
`, pkg, version, spec))
	WriteAnnotations(t, dir, pkg)
}

// WriteAnnotations writes the annotations of a bundle in a folder.
func WriteAnnotations(t testing.TB, dir, pkg string) {
	t.Helper()
	Write(t, filepath.Join(dir, "metadata", "annotations.yaml"), fmt.Sprintf(`annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.package.v1: %s
  operators.operatorframework.io.bundle.channels.v1: stable
`, pkg))
}

// PushBundle pushes the image of a bundle folder, and returns the image's digest.
func PushBundle(t testing.TB, dir, pkg, reference string) (digest string) {
	t.Helper()
	content := oci.Content{Files: map[string][]byte{}, Labels: map[string]string{"operators.operatorframework.io.bundle.package.v1": pkg}}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content.Files[path], err = os.ReadFile(filepath.Join(dir, path))
		return err
	})
	require.NoError(t, err)
	index, err := content.Index()
	require.NoError(t, err)
	digest, err = oci.Push(t.Context(), reference, index)
	require.NoError(t, err)
	return digest
}
