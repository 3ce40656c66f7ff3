package prediction

import (
	"os"
	"path/filepath"
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

// TestLargeResolver: if OLM's resolver takes too much memory, the prediction says so, and no other resolver starts beside it.
func TestLargeResolver(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, catalogs.WritePigeons(dir, 10))
	c, _, err := fbc.Read(t.Context(), dir)
	require.NoError(t, err)
	defer func(was uint64) {
		resolverMemory = was
		isLarge.Store(false)
	}(resolverMemory)
	resolverMemory = 1 << 20
	for range 2 {
		state, err := Installed(c, "tide", "", "")
		require.NoError(t, err)
		got, err := state.Predict(t.Context())
		require.NoError(t, err)
		if len(got) != 1 || got[0].Reaction != Refused || len(got[0].Why) != 1 || !strings.HasPrefix(got[0].Why[0].What, "on package tide, OLM's resolver takes more than ") {
			t.Errorf("the predictions are %+v", got)
		}
	}
}

// TestCrashingResolver: a range with an empty alternative crashes OLM's resolver, but not Berth.
func TestCrashingResolver(t *testing.T) {
	text := strings.Join([]string{`{"schema":"olm.package","name":"sea","defaultChannel":"stable"}`,
		`{"schema":"olm.channel","package":"sea","name":"stable","entries":[{"name":"sea.v9.0.0"}]}`,
		`{"schema":"olm.bundle","package":"sea","name":"sea.v9.0.0","image":"quay.io/x/y:v9","properties":[{"type":"olm.package","value":{"packageName":"sea","version":"9.0.0"}}]}`,
		`{"schema":"olm.package","name":"tide","defaultChannel":"stable"}`,
		`{"schema":"olm.channel","package":"tide","name":"stable","entries":[{"name":"tide.v1.0.0"}]}`,
		`{"schema":"olm.bundle","package":"tide","name":"tide.v1.0.0","image":"quay.io/x/y:v1","properties":[{"type":"olm.package","value":{"packageName":"tide","version":"1.0.0"}},` +
			`{"type":"olm.package.required","value":{"packageName":"sea","versionRange":"1.0.0 || || 2.0.0"}}]}`}, "\n")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(text), 0o644))
	c, _, err := fbc.Read(t.Context(), dir)
	require.NoError(t, err)
	state, err := Installed(c, "tide", "", "")
	require.NoError(t, err)
	got, err := state.Predict(t.Context())
	require.NoError(t, err)
	if len(got) != 1 || got[0].Reaction != Refused || !strings.HasPrefix(got[0].Message, "OLM's resolver, which OLM's catalog operator runs, too, crashes on this catalog: ") {
		t.Errorf("the predictions are %+v", got)
	}
}
