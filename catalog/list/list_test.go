package list

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/test/catalogs"
)

// sizes are the lengths of writes.
type sizes []int

func (s *sizes) Write(p []byte) (int, error) {
	*s = append(*s, len(p))
	return len(p), nil
}

// TestRowsAreWrittenOneByOne: a channel has a name of 100 kB, which is in each of a thousand rows.
func TestRowsAreWrittenOneByOne(t *testing.T) {
	var text strings.Builder
	channel := strings.Repeat("n", 100_000)
	fmt.Fprintf(&text, "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: tide\nname: %s\nentries:\n", channel)
	for i := range 1000 {
		fmt.Fprintf(&text, "- {name: tide.v1.0.%d}\n", i)
	}
	for i := range 1000 {
		fmt.Fprintf(&text, "---\nschema: olm.bundle\npackage: tide\nname: tide.v1.0.%d\nimage: quay.io/example/tide:%d\nproperties:\n- {type: olm.package, value: {packageName: tide, version: 1.0.%d}}\n", i, i, i)
	}
	dir := t.TempDir()
	catalogs.Write(t, filepath.Join(dir, "catalog.yaml"), text.String())
	c, _, err := fbc.Read(t.Context(), dir)
	require.NoError(t, err)
	var written sizes
	require.NoError(t, Write(&written, c, Options{Kind: "bundles", Format: "json"}))
	total, longest := 0, 0
	for _, n := range written {
		total, longest = total+n, max(longest, n)
	}
	assert.Greater(t, total, 1000*len(channel), "the name is in each row")
	assert.Less(t, longest, 2*len(channel), "the longest write")
}
