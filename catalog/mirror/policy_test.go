package mirror_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/mirror/policy"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/registry"
)

// TestPolicy: an image that the policy refuses is not copied, nor is the catalog, and the error names the bundle and the policy's entry.
func TestPolicy(t *testing.T) {
	s := newSea(t, nil)
	to := registry.Start(t, nil) + "/mirror"
	file := filepath.Join(t.TempDir(), "policy.json")
	text := fmt.Sprintf(`{"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {%q: [{"type": "reject"}]}}}`, s.address+"/example/deep")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	p, err := policy.Read(file, filepath.Join(t.TempDir(), "absent"))
	require.NoError(t, err)
	m, err := mirror.New(t.Context(), s.dir, mirror.Options{Name: "sea", Tag: "latest", Jobs: 3, Time: time.Minute, Text: s.dir, Origin: "a folder", Policy: p})
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	destination, err := mirror.OpenDestination(to, "sea")
	require.NoError(t, err)
	t.Cleanup(func() { _ = destination.Close() })
	require.NoError(t, m.Inspect(t.Context(), oci.Registries(t.Context()), destination))
	want := fmt.Sprintf("entry 1 of transports.docker[%q], reject", s.address+"/example/deep")
	if err := m.Fault(); err == nil || strings.Count(err.Error(), want) != 3 || !strings.Contains(err.Error(), "bundle tide.v2.0.0: ") {
		t.Errorf("got %v; want three times %q", err, want)
	}
	assert.Error(t, m.Copy(t.Context(), func(mirror.Image) {}), "the catalog was copied")
	for place, copied := range map[string]bool{s.address + "/example/tide-bundle:v1.0.0": true, s.address + "/example/deep/tide:v1.0.0": false} {
		for _, image := range s.images {
			if strings.HasPrefix(image, strings.TrimSuffix(place, ":v1.0.0")+"@") && (digestIn(t, to+"/"+placeOf(image)) != "") != copied {
				t.Errorf("%s was copied: %t; want %t", image, !copied, copied)
			}
		}
	}
	if digestIn(t, to+"/sea:latest") != "" {
		t.Error("the catalog was copied")
	}
}
