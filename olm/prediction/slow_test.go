package prediction

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestSlowResolver: if OLM's resolver does not end in time, the prediction says so.
func TestSlowResolver(t *testing.T) {
	dir := t.TempDir()
	if err := catalogs.WritePigeons(dir, 10); err != nil { // which takes the resolver twenty seconds
		t.Fatal(err)
	}
	c, _, err := fbc.Read(t.Context(), dir)
	require.NoError(t, err)
	state, err := Installed(c, "tide", "", "")
	require.NoError(t, err)
	defer func(was time.Duration) { resolverTime = was }(resolverTime)
	resolverTime = 100 * time.Millisecond
	got, err := state.Predict(t.Context())
	require.NoError(t, err)
	if len(got) != 1 || got[0].Reaction != Refused || len(got[0].Why) != 1 || got[0].Why[0].Code != ResolverSlow || !strings.HasPrefix(got[0].Why[0].What, "on package tide, OLM's resolver takes longer than ") {
		t.Errorf("the predictions are %+v", got)
	}
}
