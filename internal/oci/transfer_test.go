package oci

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/registry"
)

// TestManyParts: a transfer keeps the parts of all its images in memory, so their number is limited, with those that images share.
func TestManyParts(t *testing.T) {
	image := pushed(t, registry.Start(t, nil))
	folder, err := NewFolder(filepath.Join(t.TempDir(), "images"))
	require.NoError(t, err)
	defer folder.Close()
	transfer := &Transfer{From: Registries(t.Context()), To: folder}
	w, err := transfer.Inspect(t.Context(), image)
	require.NoError(t, err)
	transfer.parts.Store(maxAllParts - int64(len(w.manifests)+len(w.blobs)))
	_, err = transfer.Inspect(t.Context(), image)
	require.NoError(t, err, "with the last parts that it may have")
	_, err = transfer.Inspect(t.Context(), image)
	assert.ErrorContains(t, err, "the images have more than 2097152 manifests and blobs together; expected fewer")
	assert.False(t, IsOfSource(err), "the other images are inspected, too")
}
