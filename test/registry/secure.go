package registry

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Secure is a registry on loopback with TLS, which requires a login and lists what is attached to images.
type Secure struct {
	// Address is its host and port.
	Address string
	// Env are the variables with which programs trust it and log in, for exec.Cmd.Env.
	Env   []string
	guard atomic.Pointer[func(http.Handler) http.Handler]
}

// The login of a Secure registry.
const (
	User     = "tester"
	Password = "loopback"
)

// StartSecure starts a registry that ends with the test.
func StartSecure(t testing.TB) *Secure {
	t.Helper()
	s := &Secure{}
	own := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != User || password != Password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors": [{"code": "UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
		handler := own
		if guard := s.guard.Load(); guard != nil {
			handler = (*guard)(handler)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.Address = strings.TrimPrefix(server.URL, "https://")
	folder := t.TempDir()
	authority, config := filepath.Join(folder, "ca.crt"), filepath.Join(folder, "config.json")
	login := fmt.Sprintf(`{"auths": {%q: {"username": %q, "password": %q, "auth": "dGVzdGVyOmxvb3BiYWNr"}}}`, s.Address, User, Password)
	for file, content := range map[string][]byte{
		authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		config:    []byte(login),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Env = []string{"SSL_CERT_FILE=" + authority, "DOCKER_CONFIG=" + folder, "REGISTRY_AUTH_FILE=" + config}
	return s
}

// Guard wraps the handler of requests from now on; nil ends that.
func (s *Secure) Guard(guard func(http.Handler) http.Handler) {
	if guard == nil {
		s.guard.Store(nil)
		return
	}
	s.guard.Store(&guard)
}
