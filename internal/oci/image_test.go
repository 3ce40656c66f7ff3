package oci

import (
	"archive/tar"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/registry"
)

func cargo() Content {
	return Content{
		Files:  map[string][]byte{"hold/deep/rum": []byte("barrels"), "hold/tea": []byte("chests"), "log": nil},
		Labels: map[string]string{"ship": "clipper", "home": "london"},
	}
}

// digest is the digest of cargo(). It changes only if the construction of images changes; then all images get new
// digests.
const digest = "sha256:18a72c2aea0ce78e6dc98001a384c7fc72b30b900f632f0317c49d13d17ffeb4"

func mustIndex(t *testing.T, c Content) v1.ImageIndex {
	t.Helper()
	index, err := c.Index()
	require.NoError(t, err)
	return index
}

func TestDigestIsAlwaysTheSame(t *testing.T) {
	for range 10 {
		got, err := mustIndex(t, cargo()).Digest()
		require.NoError(t, err)
		require.Equal(t, digest, got.String())
	}
	other := cargo()
	other.Labels["home"] = "leith"
	if got, _ := mustIndex(t, other).Digest(); got.String() == digest {
		t.Error("an image with another label has the same digest")
	}
}

func TestIndexIsForAllArchitectures(t *testing.T) {
	index := mustIndex(t, cargo())
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		image, err := index.Image(m.Digest)
		require.NoError(t, err)
		config, err := image.ConfigFile()
		require.NoError(t, err)
		if config.Architecture != m.Platform.Architecture || config.OS != "linux" {
			t.Errorf("the image for %s says that it is for %s/%s", m.Platform, config.OS, config.Architecture)
		}
		assert.Empty(t, cmp.Diff(cargo().Labels, config.Config.Labels), "labels (-want +got)")
	}
	assert.Empty(t, cmp.Diff([]string{"linux/amd64", "linux/arm64", "linux/ppc64le", "linux/s390x"}, platforms), "platforms (-want +got)")
}

// TestPush: the registry returns the same image that was pushed.
func TestPush(t *testing.T) {
	reference := registry.Start(t, nil) + "/harbour/cargo:v1"
	for range 2 { // the second push finds the image
		got, err := Push(t.Context(), reference, mustIndex(t, cargo()))
		require.NoError(t, err)
		assert.Equal(t, digest, got)
	}
	ref, err := name.ParseReference(reference)
	require.NoError(t, err)
	pulled, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "arm64"}))
	require.NoError(t, err)
	checkCargo(t, pulled)
}

func TestPushExplains(t *testing.T) {
	address := registry.Nobody()
	for reference, want := range map[string]string{
		"Not An Image":     `image "Not An Image": want a reference such as`,
		address + "/a/b:c": "pushing to " + address + "/a/b:c: ",
	} {
		if _, err := Push(t.Context(), reference, mustIndex(t, cargo())); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Push(ctx, address+"/a/b:c", mustIndex(t, cargo()))
	assert.Error(t, err, "it was pushed although its context had ended")
}

func checkCargo(t *testing.T, image v1.Image) {
	t.Helper()
	files := tarFiles(t, mutate.Extract(image))
	assert.Empty(t, cmp.Diff(map[string]string{"hold": "", "hold/deep": "", "hold/deep/rum": "barrels", "hold/tea": "chests", "log": ""}, files), "files (-want +got)")
}

func TestWriteLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "layout")
	for range 2 { // the second replaces it
		got, err := WriteLayout(dir, mustIndex(t, cargo()))
		require.NoError(t, err)
		assert.Equal(t, digest, got)
	}
	outer, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	manifest, err := outer.IndexManifest()
	require.NoError(t, err)
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest.String() != digest {
		t.Fatalf("the layout holds %v, want just %s", manifest.Manifests, digest)
	}
	inner, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	assert.NoError(t, validate.Index(inner))
	if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 1 {
		t.Errorf("beside the layout there is something left: %v", left)
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(in("fresh"), []byte("fresh"), 0o644))
	require.NoError(t, Replace(in("layout"), in("fresh"), in("former")), "there is none yet")
	assert.Error(t, Replace(in("layout"), in("missing"), in("former")))
	content, err := os.ReadFile(in("layout"))
	require.NoError(t, err, "it is gone, although nothing took its place")
	assert.Equal(t, "fresh", string(content))
}

func TestWriteLayoutRefuses(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o644))
	_, err := WriteLayout(dir, mustIndex(t, cargo()))
	assert.ErrorContains(t, err, "will not replace "+dir+": it holds notes.txt")
	assert.FileExists(t, filepath.Join(dir, "notes.txt"))
}

func TestPathsStayBelowTheRoot(t *testing.T) {
	for _, path := range []string{"/etc/passwd", "../escape", "a/../../b", "a//b", "."} {
		_, err := (Content{Files: map[string][]byte{path: nil}}).Index()
		assert.Errorf(t, err, "a file %q is accepted", path)
	}
}

// tarFiles returns the files of an archive with their content, and its folders.
func tarFiles(t *testing.T, archive io.ReadCloser) map[string]string {
	t.Helper()
	defer archive.Close()
	files := map[string]string{}
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return files
		}
		require.NoError(t, err)
		data, err := io.ReadAll(reader)
		require.NoError(t, err)
		files[header.Name] = string(data)
	}
}
