package oci

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// TestResets: a registry ends streams of HTTP/2 in the middle of blobs. Blobs are read again, and what the attempts read counts once;
// if it goes on, the error says what happened.
func TestResets(t *testing.T) {
	var resets atomic.Int64 // how many streams it still ends
	own := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") || resets.Add(-1) < 0 {
			own.ServeHTTP(w, r)
			return
		}
		assert.Equalf(t, 2, r.ProtoMajor, "the request is of %s; want HTTP/2", r.Proto)
		whole := httptest.NewRecorder()
		own.ServeHTTP(whole, r)
		w.Header().Set("Content-Length", whole.Header().Get("Content-Length"))
		_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()-1])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	plain := httptest.NewServer(own)
	t.Cleanup(plain.Close)
	reference := push(t, strings.TrimPrefix(plain.URL, "http://"), layered(t, [][]string{{"hold/tea"}}))
	_, path, _ := strings.Cut(reference, "/")
	reference = strings.TrimPrefix(server.URL, "https://") + "/" + path
	ctx := Unverified(t.Context())

	layer, err := layered(t, [][]string{{"hold/tea"}}).Layers()
	require.NoError(t, err)
	stream, err := layer[0].Uncompressed()
	require.NoError(t, err)
	size, err := io.Copy(io.Discard, stream)
	require.NoError(t, err)
	limits := generous
	limits.Size = size + 2<<10 // of the manifest, but not of another attempt
	for name, pull := range map[string]func() (Pulled, error){
		"layers": func() (Pulled, error) { return Pull(ctx, reference, limits, "hold") },
		"the configuration": func() (Pulled, error) {
			return PullLabelled(ctx, Registries(ctx), reference, limits, func(map[string]string) ([]string, error) {
				resets.Store(0)
				return []string{"hold"}, nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			resets.Store(2)
			pulled, err := pull()
			if got := listed(pulled.Files); err != nil || got != "hold/tea of 0" {
				t.Errorf("after two resets, it got %q and error %v", got, err)
			}
			resets.Store(1 << 20)
			_, err = pull()
			want := regexp.MustCompile(`^cannot pull image .*: stream error: stream ID \d+; INTERNAL_ERROR; received from peer; check that .* can be reached from here`)
			if reset := (http2.StreamError{}); err == nil || !errors.As(err, &reset) || !want.MatchString(err.Error()) {
				t.Errorf("got error %v; want one that matches %s", err, want)
			}
		})
	}
}
