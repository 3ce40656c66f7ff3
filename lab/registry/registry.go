// Package registry runs a real image registry on loopback, for tests.
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

// Start starts a registry that ends with the test, and returns its address. guard may wrap its handler, for a
// registry that requires a login; it may be nil.
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

// Nobody returns an address without a listener.
func Nobody() (address string) {
	server := httptest.NewServer(nil)
	server.Close()
	return strings.TrimPrefix(server.URL, "http://")
}
