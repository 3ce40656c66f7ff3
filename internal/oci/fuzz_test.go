package oci

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// addHostile adds the files of testdata/hostile that match a pattern as seeds.
func addHostile(f *testing.F, pattern string) {
	files, err := filepath.Glob(filepath.Join(hostile, pattern))
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(content)
	}
}

// FuzzLayer reads arbitrary data as a layer. The result must be files of the folder, within the size limit, and the
// same each time.
func FuzzLayer(f *testing.F) {
	addHostile(f, "*.tar*")
	const size = 256 << 10
	read := func(data []byte) (map[string][]byte, error) {
		l, err := readLayer(bytes.NewReader(data), newBudget(Limits{Size: size}), []string{"hold"})
		if err != nil {
			return nil, err
		}
		s := &stack{layers: []*layer{l}}
		return s.files(), s.checkLinks()
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := read(data)
		again, errAgain := read(data)
		if diff := cmp.Diff(files, again, cmpopts.EquateEmpty()); diff != "" || (err == nil) != (errAgain == nil) {
			t.Errorf("read twice: errors %v and %v; files (-first +second):\n%s", err, errAgain, diff)
		}
		total := 0
		for name, content := range files {
			total += len(content)
			if !isWithin(name, "hold") || !isPlain(name) || strings.Contains(name, "..") && slices.Contains(strings.Split(name, "/"), "..") {
				t.Errorf("it has a file %q", name)
			}
		}
		assert.LessOrEqual(t, total, size, "bytes of files")
	})
}

// FuzzManifest reads arbitrary data as a manifest. It may make Pull fetch only blobs of the registry, within
// limits.
func FuzzManifest(f *testing.F) {
	addHostile(f, "*.json")
	const size = 1 << 20
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, mediaType := range []types.MediaType{types.OCIManifestSchema1, types.DockerManifestSchema2, types.OCIImageIndex, types.DockerManifestList} {
			m, err := parse(v1.Descriptor{MediaType: mediaType}, text)
			if err != nil {
				continue
			}
			layers, err := m.layers(size)
			if err != nil {
				layers = nil
			}
			images, err := m.images()
			if err != nil {
				images = nil
			}
			if len(layers) > maxLayers || len(images) > maxManifests || len(layers) > 0 && len(images) > 0 {
				t.Errorf("%s: %d layers, %d images", mediaType, len(layers), len(images))
			}
			var total int64
			for _, d := range slices.Concat(layers, images) {
				if len(d.URLs) > 0 || !d.MediaType.IsDistributable() {
					t.Errorf("%s: %s is fetched from elsewhere", mediaType, d.Digest)
				}
			}
			for _, d := range layers {
				if total += d.Size; d.Size < 0 || total > size {
					t.Errorf("%s: %d bytes are fetched; want at most %d", mediaType, total, size)
				}
			}
		}
	})
}
