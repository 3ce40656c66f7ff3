package build

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestManyLargeImages: the bundles of Berth's templates are kept in memory, so their images are limited together; those of opm's are not.
func TestManyLargeImages(t *testing.T) {
	t.Chdir(t.TempDir())
	catalogs.WriteBundle(t, "tide", "tide", "1.0.0", "")
	image := registry.Start(t, nil) + "/tide:v1.0.0"
	catalogs.PushBundle(t, "tide", "tide", image)
	s, err := newBundleSet(t.Context(), Options{})
	require.NoError(t, err)
	defer s.store.Close()
	s.kept.Store(maxKept - 1)
	own, lean := reference{image: image}, reference{image: image, lean: true}
	require.NoError(t, s.fill(t.Context(), []reference{own, lean}))
	assert.ErrorContains(t, s.bundles[own].err, "with it, the bundles take more than 1073741824 bytes, in the files of images and in memory; expected fewer")
	assert.NoError(t, s.bundles[lean].err)
	next := reference{folder: "not read"}
	require.NoError(t, s.fill(t.Context(), []reference{next}))
	assert.ErrorContains(t, s.bundles[next].err, "the bundles take more than")
}

// TestLargeImagesOneByOne: rendering takes many times as much memory as the files of an image, so large ones are not rendered at once.
func TestLargeImagesOneByOne(t *testing.T) {
	processors := int64(runtime.GOMAXPROCS(0))
	for size, want := range map[int64]int64{0: maxRendered / processors, maxRendered - 1: maxRendered - 1, 2 * maxRendered: maxRendered} {
		assert.Equal(t, want, shareOf(int(size)), "share of %d bytes", size)
	}
}

// TestFoldersAreKeptWithoutObjects: the folders of a repository take as much memory as the catalog that is made of them.
func TestFoldersAreKeptWithoutObjects(t *testing.T) {
	dir := t.TempDir()
	catalogs.WriteBundle(t, dir, "tide", "1.0.0", "")
	bundles, found, err := readFolders(t.Context(), []string{dir})
	require.NoError(t, err)
	require.Empty(t, found)
	assert.Empty(t, bundles[0].Objects)
	assert.Empty(t, bundles[0].Files)
}
