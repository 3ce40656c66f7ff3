package oci

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/memory"
)

// TestStrangersRegistries: a catalog from a registry cannot cause requests to private addresses.
func TestStrangersRegistries(t *testing.T) {
	var requests atomic.Int32
	here := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer here.Close()
	address := strings.TrimPrefix(here.URL, "http://")
	for registry, to := range map[string]string{
		address:                  here.URL + "/v2/",
		"localhost:5000":         "http://localhost:5000/v2/",
		"10.1.2.3:5000":          "http://10.1.2.3:5000/v2/",
		"192.168.1.1":            "https://192.168.1.1/v2/",
		"100.64.0.1":             "https://100.64.0.1/v2/",
		"169.254.169.254":        "http://169.254.169.254/v2/",
		"[fd00:ec2::254]:80":     "http://[fd00:ec2::254]:80/v2/",
		"[fd12::1]:80":           "http://[fd12::1]:80/v2/",
		"[::ffff:10.1.2.3]:80":   "http://[::ffff:10.1.2.3]:80/v2/",
		"[64:ff9b::a01:203]:80":  "http://[64:ff9b::a01:203]:80/v2/", // 10.1.2.3 behind a router
		"[2002:a01:203::1]:80":   "http://[2002:a01:203::1]:80/v2/",
		"[::10.1.2.3]:80":        "http://[::10.1.2.3]:80/v2/",
		"[fec0::1]:80":           "http://[fec0::1]:80/v2/",
		"168.63.129.16":          "https://168.63.129.16/v2/", // Azure's
		"198.18.0.1":             "https://198.18.0.1/v2/",
		"240.0.0.1":              "https://240.0.0.1/v2/",
		"registry.example.com":   "https://10.1.2.3/layer", // its redirect
		"registry.example.com:1": "https://127.0.0.1/layer",
	} {
		from, err := name.NewRegistry(registry)
		require.NoError(t, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
		require.NoError(t, err)
		strange := PublicRegistries(t.Context()).(*registries)
		_, err = strange.guard(from).transport(request)
		assert.ErrorContainsf(t, err, "name its host with --allow-host", "%s, as a stranger names it", to)
		allowed := PublicRegistries(t.Context(), registry).(*registries)
		if _, err := allowed.guard(from).transport(request); err != nil && to != "https://127.0.0.1/layer" {
			t.Errorf("%s, as the user names it: %v", to, err)
		}
	}
	for _, public := range []string{"192.0.2.1", "[2001:db8::1]", "[64:ff9b::c000:201]", "[2002:c000:201::1]"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+public+"/v2/", nil)
		require.NoError(t, err)
		from, err := name.NewRegistry("registry.example.com")
		require.NoError(t, err)
		_, err = PublicRegistries(t.Context()).(*registries).guard(from).transport(request)
		require.NoError(t, err, "%s, as a stranger names it", public)
	}
	// A name may stand for any address.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, here.URL, nil)
	require.NoError(t, err)
	if response, err := toStrange.RoundTrip(request); err == nil {
		response.Body.Close()
		t.Error("the transport for strangers' registries connects to this machine")
	}
	if requests.Load() > 0 {
		t.Errorf("%d requests arrived; want none", requests.Load())
	}
}

// TestPlaces: each registry has its own place below the path of a mirror, even if strangers choose
// similar names.
func TestPlaces(t *testing.T) {
	below, err := Below("mirror.example.com/team")
	require.NoError(t, err)
	for of, want := range map[string]string{
		"quay.io/example/operator":          "quay.io/example/operator",
		"ubuntu":                            "docker.io/library/ubuntu",
		"registry.example.com:5000/a/b":     "registry.example.com__5000/a/b",
		"127.0.0.1:5000/certified":          "127.0.0.1__5000/certified",
		"[fd00::1]:5000/a":                  "v6__fd00-0000-0000-0000-0000-0000-0000-0001__5000/a",
		"registry.example.com__5000/a/b":    "",
		"registry.example.com__5000:5000/a": "",
	} {
		repo, err := name.NewRepository(of)
		if err != nil {
			continue // no reference can name it
		}
		placed, err := below.place(repo, false)
		if got := strings.TrimPrefix(placed.Name(), "mirror.example.com/team/"); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%s is at %s, want %s: %v", of, got, want, err)
		}
	}
}

// waiting is a body that blocks until the context ends.
type waiting struct{ ctx context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

func (waiting) Close() error { return nil }

// TestSlowBody: a response below the minimum rate is aborted, and one at the minimum rate is not.
func TestSlowBody(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	slow := &minRateBody{ReadCloser: waiting{ctx}, cancel: cancel, left: 10 * time.Millisecond}
	_, err := io.ReadAll(slow)
	assert.ErrorContains(t, err, "its registry sends less than 1024 bytes a second", "a slow one")
	fast := &minRateBody{ReadCloser: io.NopCloser(bytes.NewReader(make([]byte, 1<<20))), cancel: cancel, left: time.Second}
	if read, err := io.ReadAll(fast); err != nil || len(read) != 1<<20 || fast.left < 10*time.Second {
		t.Errorf("a fast one: %d bytes, and %s are left: %v", len(read), fast.left, err)
	}
}

// TestLongHeader: the header of a response is bounded, too.
func TestLongHeader(t *testing.T) {
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 2*maxHeader))
	}))
	defer registry.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, registry.URL, nil)
	require.NoError(t, err)
	response, err := toNamed.RoundTrip(request)
	if err == nil {
		response.Body.Close()
	}
	require.ErrorContains(t, err, "server response headers exceeded 262144 bytes")
}

// TestLayerAnswers: only the answer to the request for a layer itself is exempt from the limit for other
// answers.
func TestLayerAnswers(t *testing.T) {
	repo, err := name.NewRepository("registry.example.com/x/blobs/y")
	require.NoError(t, err)
	digest := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}
	layer := "https://registry.example.com/v2/x/blobs/y/blobs/" + digest.String()
	ctx := forLayer(t.Context(), repo, v1.Descriptor{Digest: digest})
	for _, tc := range []struct {
		ctx  context.Context
		url  string
		want bool
	}{
		{ctx, layer, true},
		{t.Context(), layer, false},
		{t.Context(), "https://registry.example.com/v2/x/blobs/y/manifests/v1", false},
		{ctx, layer + "?service=x&scope=repository", false}, // a token, at the address of the layer
		{ctx, strings.Replace(layer, "registry.", "tokens.", 1), false},
	} {
		request, err := http.NewRequestWithContext(tc.ctx, http.MethodGet, tc.url, nil)
		require.NoError(t, err)
		assert.Equal(t, tc.want, newGuard(repo.Registry).isForLayer(request), tc.url)
	}
}

// TestManyInIndex: a short list of very many images takes no more memory than the list itself.
func TestManyInIndex(t *testing.T) {
	dir := t.TempDir()
	text := `{"schemaVersion":2,"manifests":[{}` + strings.Repeat(",{}", 4<<20) + `]}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, indexFile), []byte(text), 0o600))
	var err error
	used := memory.Allocated(func() { _, err = OpenFolder(dir) })
	if err == nil || !strings.Contains(err.Error(), "as in a folder that `berth catalog mirror` wrote") || used > 4<<20 {
		t.Errorf("it took %d KiB: %v", used>>10, err)
	}
}
