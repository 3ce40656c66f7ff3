package document_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/catalog/fbc/document"
)

// TestStore keeps several MiB concurrently, so that some of it is written to the file and some is not.
func TestStore(t *testing.T) {
	store, err := document.NewStore()
	require.NoError(t, err)
	defer store.Close()
	const count = 200
	span := func(i int) document.Span { return document.Span{File: "catalog.json", Offset: int64(i)} }
	content := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 1+i*211) }
	var group errgroup.Group
	var size int64
	for i := range count {
		size += int64(len(content(i)))
		group.Go(func() error { return store.Keep(span(i), content(i)) })
	}
	require.NoError(t, group.Wait())
	assert.EqualValues(t, size, store.Size(), "the size")
	before := []byte("before")
	for i := range count {
		got, err := store.Load(bytes.Clone(before), span(i))
		require.NoError(t, err)
		assert.Equalf(t, append(bytes.Clone(before), content(i)...), got, "document %d: got %d bytes that are not those that were kept", i, len(got))
	}
	_, err = store.Load(nil, span(count))
	assert.Error(t, err, "a document was loaded that was never kept")
}
