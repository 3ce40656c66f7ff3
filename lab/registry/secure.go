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
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Secure is a registry on loopback with TLS, which requires a login and lists the referrers of images.
type Secure struct {
	// Address is its host and port.
	Address string
	// Authority is the certificate that clients have to trust, as PEM.
	Authority []byte
	// Login is the clients' login configuration, in Docker's format.
	Login []byte
	// Env are the variables that let programs trust it and log in, for exec.Cmd.Env.
	Env []string
	// Open is an address at which it requires neither TLS nor a login, and has no guard: tests put images there.
	Open  string
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
	open := httptest.NewServer(own)
	t.Cleanup(open.Close)
	s.Open = strings.TrimPrefix(open.URL, "http://")
	s.Authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	s.Login = logins(s)
	s.Env = Env(t, s)
	return s
}

// logins returns the clients' login configuration for registries.
func logins(registries ...*Secure) []byte {
	var all []string
	for _, s := range registries {
		all = append(all, fmt.Sprintf(`%q: {"username": %q, "password": %q, "auth": "dGVzdGVyOmxvb3BiYWNr"}`, s.Address, User, Password))
	}
	return []byte(`{"auths": {` + strings.Join(all, ", ") + `}}`)
}

// Env returns the variables that let programs trust several registries and log in to them.
func Env(t testing.TB, registries ...*Secure) []string {
	t.Helper()
	var authorities []byte
	for _, s := range registries {
		authorities = append(authorities, s.Authority...)
	}
	folder := t.TempDir()
	authority, config := filepath.Join(folder, "ca.crt"), filepath.Join(folder, "config.json")
	for file, content := range map[string][]byte{authority: authorities, config: logins(registries...)} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"SSL_CERT_FILE=" + authority, "DOCKER_CONFIG=" + folder, "REGISTRY_AUTH_FILE=" + config}
}

// Push pushes an image as an image for this machine's architecture, and returns its reference. repository includes a tag.
func (s *Secure) Push(t testing.TB, repository string, img v1.Image) (reference string) {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	// Not with a package of the project: the lab imports none.
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}}})
	to, err := name.ParseReference(s.Open + "/" + repository)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(to, index, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	return s.Address + "/" + repository
}

// Guard wraps the handler of requests from now on; nil ends that.
func (s *Secure) Guard(guard func(http.Handler) http.Handler) {
	if guard == nil {
		s.guard.Store(nil)
		return
	}
	s.guard.Store(&guard)
}

// AdmitNode lets the container runtime of a node trust the registry, and its kubelet log in, as OpenShift does with the
// cluster's additional certificate authorities and its pull secret. The node must reach the registry at its address,
// and root is the node's root folder. Call it before the node pulls anything: kubelets read their pull secret every
// five minutes.
func (s *Secure) AdmitNode(root string) error {
	trust := filepath.Join("/etc/containerd/certs.d", s.Address)
	for path, content := range map[string]string{
		filepath.Join(trust, "ca.crt"):     string(s.Authority),
		filepath.Join(trust, "hosts.toml"): fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\nca = %q\n", "https://"+s.Address, filepath.Join(trust, "ca.crt")),
		"/var/lib/kubelet/config.json":     string(s.Login),
	} {
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}
