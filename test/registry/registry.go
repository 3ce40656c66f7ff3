// Package registry is a registry of images for tests: a real one, on loopback.
package registry

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Start starts a registry that ends with the test, and returns its address. The guard may answer requests
// in its place, for a registry that asks for a login; it is nil for one that does not.
func Start(t testing.TB, guard func(http.Handler) http.Handler) (address string) {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if guard != nil {
		handler = guard(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// Nobody returns an address at which nobody listens.
func Nobody() (address string) {
	server := httptest.NewServer(nil)
	server.Close()
	return strings.TrimPrefix(server.URL, "http://")
}
