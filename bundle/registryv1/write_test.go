package registryv1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gadgetBundle returns a small bundle.
func gadgetBundle() *Bundle {
	return &Bundle{Package: "gadget", Name: "gadget.v1.0.0", Files: []File{
		{Path: DockerfilePath, Data: []byte("FROM scratch\n")},
		{Path: ManifestsDir + "/csv.yaml", Data: []byte(csvManifest)},
		{Path: AnnotationsPath, Data: []byte(gadget)},
	}}
}

// written writes a bundle to a folder of the test.
func written(t *testing.T, b *Bundle) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bundle")
	require.NoError(t, b.Write(dir))
	return dir
}

func TestWriteReplacesABundleAsAWhole(t *testing.T) {
	b := gadgetBundle()
	dir := written(t, b)
	stale := filepath.Join(dir, ManifestsDir, "stale.yaml")
	broken := filepath.Join(dir, ManifestsDir, "csv.yaml")
	for _, file := range []string{stale, broken} {
		require.NoError(t, os.WriteFile(file, []byte("<<<<<<< ours"), 0o644))
	}

	require.NoError(t, b.Write(dir))
	onlyBundle(t, dir, b)
}

// onlyBundle checks that dir holds the bundle, and that nothing else is left in it or next to it.
func onlyBundle(t *testing.T, dir string, b *Bundle) {
	t.Helper()
	got, err := Load(dir)
	require.NoError(t, err)
	assert.Emptyf(t, cmp.Diff(b, got.Bundle), "%s (-want +got)", dir)
	siblings, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	assert.Lenf(t, siblings, 1, "beside %s there is something left", dir)
}

func TestWriteMakesFolders(t *testing.T) {
	b := gadgetBundle()
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	require.NoError(t, b.Write(dir))
	onlyBundle(t, dir, b)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	if info.Mode().Perm()&0o055 != 0o055 {
		t.Errorf("others cannot read the bundle: mode %v", info.Mode())
	}
}

func TestWriteToAnEmptyFolder(t *testing.T) {
	b := gadgetBundle()
	dir := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, b.Write(dir))
	onlyBundle(t, dir, b)
}

func TestWriteThatFailsLeavesTheOldBundle(t *testing.T) {
	old := gadgetBundle()
	dir := written(t, old)
	impossible := &Bundle{Package: old.Package, Files: []File{{Path: "manifests"}, {Path: "manifests/in-a-file.yaml"}}}
	require.Error(t, impossible.Write(dir), "a bundle was written that has a file below a file")
	onlyBundle(t, dir, old)
}

func TestWriteRefuses(t *testing.T) {
	const annotations = "annotations:\n  operators.operatorframework.io.bundle.package.v1: "
	for _, tc := range []struct {
		name, file, content, want string
	}{
		{"a folder of something else", "notes.txt", "mine", "it holds notes.txt, which is not part of a bundle"},
		{"a bundle with something else in it", ".git/HEAD", "mine", "it holds .git, which is not part of a bundle"},
		{"a bundle without a package", "manifests/a.yaml", "a: b", "no file in its folder metadata has the annotation operators.operatorframework.io.bundle.package.v1"},
		{"annotations without a package", "metadata/annotations.yaml", "annotations: {}", "no file in its folder metadata has the annotation operators.operatorframework.io.bundle.package.v1"},
		{"broken annotations", "metadata/annotations.yaml", "a: b: c", "metadata/annotations.yaml:1:5: malformed YAML: mapping values are not allowed"},
		{"a bundle of another package", "metadata/annotations.yaml", annotations + "widget", "it is a bundle of package widget"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, filepath.FromSlash(tc.file))
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(tc.content), 0o644))
			err := gadgetBundle().Write(dir)
			if err == nil || !strings.Contains(err.Error(), "will not replace "+dir) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want: will not replace %s: … %s", err, dir, tc.want)
			}
			if data, err := os.ReadFile(file); err != nil || string(data) != tc.content {
				t.Errorf("the file that was there is %q (error %v), want it untouched", data, err)
			}
		})
	}
}
