package server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/berth-csi/berth/test/catalogs"
)

// TestPayloadIsMadeOnce asks for bundles with their payload, makes their documents unreadable, and asks again.
func TestPayloadIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, catalogs.Generate(dir, catalogs.Kind{Packages: 2, Bundles: 10, Inline: true}))
	c, err := Options{}.open(t.Context(), dir)
	require.NoError(t, err)
	defer c.Close()
	p := c.Packages[0]
	channel := p.Channels[0]
	asked := channel.Entries[0].Name
	first, err := c.GetBundle(t.Context(), p.Name, channel.Name, asked)
	require.NoError(t, err)
	if first.CsvJson == "" || len(first.Object) == 0 {
		t.Fatalf("the answer has no payload: %d bytes of the ClusterServiceVersion, %d objects", len(first.CsvJson), len(first.Object))
	}
	for _, b := range p.Bundles {
		require.NoError(t, c.Keep(b.Span, []byte("unreadable")))
	}
	if again, err := c.GetBundle(t.Context(), p.Name, channel.Name, asked); err != nil || !proto.Equal(first, again) {
		t.Errorf("asked again, the answer is another one, or %v", err)
	}
	for _, e := range channel.Entries[1:] {
		_, err := c.GetBundle(t.Context(), p.Name, channel.Name, e.Name)
		assert.ErrorContainsf(t, err, "invalid character", "%s has not been asked for, but its document is not read", e.Name)
	}
}
