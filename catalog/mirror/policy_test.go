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
	assert.Empty(t, digestIn(t, to+"/sea:latest"), "the catalog was copied")
}

// TestWriteSignatures: simple signatures are where a node that pulls from the mirror looks for them, and nothing is written through a link.
func TestWriteSignatures(t *testing.T) {
	s := newSea(t, nil)
	host := registry.Start(t, nil)
	repository, digest, _ := strings.Cut(s.images[0], "@")
	_, path, _ := strings.Cut(repository, "/")
	signature := strings.Replace(digest, ":", "=", 1) + "/signature-1"
	lookaside, registries, file := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "policy.json")
	write := func(file, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	write(filepath.Join(lookaside, path+"@"+signature), "a signature")
	write(filepath.Join(registries, "all.yaml"), "default-docker: {lookaside: \"file://"+lookaside+"\"}\n")
	write(file, `{"default": [{"type": "insecureAcceptAnything"}]}`)
	p, err := policy.Read(file, registries)
	require.NoError(t, err)
	m, err := mirror.New(t.Context(), s.dir, mirror.Options{Name: "sea", Tag: "latest", Jobs: 3, Time: time.Minute, Text: s.dir, Origin: "a folder", Policy: p})
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	destination, err := mirror.OpenDestination(host+"/mirror", "sea")
	require.NoError(t, err)
	t.Cleanup(func() { _ = destination.Close() })
	require.NoError(t, m.Inspect(t.Context(), oci.Registries(t.Context()), destination))
	resources := filepath.Join(t.TempDir(), "resources")
	_, err = m.Write(resources, mirror.Document{})
	require.NoError(t, err)
	_, err = policy.Read(filepath.Join(resources, "none.json"), registries)
	require.ErrorContains(t, err, "none.json: no such file or directory; expected a policy as containers-policy.json(5) describes it")
	place, _, _ := strings.Cut(placeOf(s.images[0]), "@")
	got, err := os.ReadFile(filepath.Join(resources, policy.Folder, "mirror", place+"@"+signature))
	require.NoError(t, err)
	assert.Equal(t, "a signature", string(got))

	carried, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, p.Write(carried, nil))
	assert.FileExists(t, filepath.Join(carried, policy.Folder, path+"@"+signature), "in a carried folder, images have the names of their source")
	linked := t.TempDir()
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(linked, policy.Folder)))
	assert.Error(t, p.Write(linked, nil))
	left, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	assert.Empty(t, left)
}
