// Package gcp is a fake Google Cloud with one project: disks, snapshots, images and instances of Compute Engine, tags of the Resource
// Manager, access tokens for service accounts and for tokens of an identity provider, and the metadata of instances, in the protocols
// that Google's clients speak. Each request needs an access token of a principal that has all permissions for it. All requests are
// recorded.
package gcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/berth-csi/berth/lab/authority"
)

// Hosts are the host names of the cloud's services.
var Hosts = []string{"compute.googleapis.com", "oauth2.googleapis.com", "sts.googleapis.com", "iamcredentials.googleapis.com", "cloudresourcemanager.googleapis.com"}

// Options are the settings of a Cloud. All are optional.
type Options struct {
	// Project and Region are "harbour-project" and "us-central1" by default. The zones have "-a", "-b" and "-c" appended.
	Project, Region string
	// Settle is how long operations take. If it is zero, only the response to the request that begins an operation shows it as running.
	Settle time.Duration
	// TokenLifetime is how long access tokens last. By default it is an hour.
	TokenLifetime time.Duration
	// MaxGB is how many gigabytes of disks the project may have. By default it is 100000.
	MaxGB int64
	// Disks may be nil.
	Disks Disks
}

// Disks keeps the content of disks, and gives instances devices. IDs are the paths of disks, snapshots and images below the
// project. If a method fails, the operation fails with INTERNAL_ERROR.
type Disks interface {
	// Create makes a disk, snapshot or image that is empty, or has the content of the origin.
	Create(id string, bytes int64, origin string) error
	// Resize makes a disk larger.
	Resize(id string, bytes int64) error
	// Delete removes a disk, snapshot or image.
	Delete(id string) error
	// Attach gives an instance the disk as the device with this name.
	Attach(id, instance, deviceName string) error
	// Detach takes the device from the instance.
	Detach(id, instance string) error
}

// Call is the record of a request.
type Call struct {
	// Method is the API method, such as "compute.disks.insert".
	Method string
	// Principal is the email of the account that called or gets a token, or an exchanged token's subject. It is empty if unknown.
	Principal string
	// Path is the path of the URL.
	Path string
	// Error is the reason of the refusal, such as "notFound". It is empty if the call succeeded.
	Error string
}

// Cloud is a Google Cloud. Use Start.
type Cloud struct {
	options Options
	server  *httptest.Server
	ca      *authority.Authority

	mu         sync.Mutex
	number     uint64 // of the last resource
	disks      map[string]*Disk
	snapshots  map[string]*Snapshot // and images
	instances  map[string]*Instance
	operations map[string]*operation
	accounts   map[string]*account
	tokens     map[string]token
	pools      map[string]IdentityProvider
	tagValues  map[string]tagValue
	bindings   map[string][]string // names of tags with their parents, by the full name of a resource
	calls      []Call
}

// Start starts a cloud until the test ends.
func Start(t testing.TB, options Options) *Cloud {
	t.Helper()
	setDefault(&options.Project, "harbour-project")
	setDefault(&options.Region, "us-central1")
	setDefault(&options.TokenLifetime, time.Hour)
	setDefault(&options.MaxGB, 100000)
	ca, err := authority.New("CA of a fake Google Cloud")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cloud{
		options: options, ca: ca,
		disks: map[string]*Disk{}, snapshots: map[string]*Snapshot{}, instances: map[string]*Instance{}, operations: map[string]*operation{},
		accounts: map[string]*account{}, tokens: map[string]token{}, pools: map[string]IdentityProvider{}, tagValues: map[string]tagValue{}, bindings: map[string][]string{},
	}
	c.server = httptest.NewUnstartedServer(c.handler())
	if c.server.TLS, err = ca.Config(Hosts); err != nil {
		t.Fatal(err)
	}
	c.server.StartTLS()
	t.Cleanup(func() {
		c.server.CloseClientConnections() // of requests that wait
		c.server.Close()
	})
	return c
}

func setDefault[T comparable](value *T, to T) {
	if *value == *new(T) {
		*value = to
	}
}

// Address returns the address, "IP:port", where all services of the cloud listen with TLS.
func (c *Cloud) Address() string { return c.server.Listener.Addr().String() }

// CA returns the certificate of the cloud's CA as PEM.
func (c *Cloud) CA() []byte { return c.ca.PEM() }

// Project returns the ID of the project.
func (c *Cloud) Project() string { return c.options.Project }

// Region returns the name of the region.
func (c *Cloud) Region() string { return c.options.Region }

// Zones returns the names of the zones.
func (c *Cloud) Zones() []string {
	return []string{c.options.Region + "-a", c.options.Region + "-b", c.options.Region + "-c"}
}

// Calls returns the requests so far.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// fault is how the cloud refuses a request.
type fault struct {
	code            int // of HTTP
	reason, message string
}

func faultf(code int, reason, format string, args ...any) *fault {
	return &fault{code, reason, fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *fault {
	return faultf(http.StatusBadRequest, "invalid", format, args...)
}

func notFound(resource string) *fault {
	return faultf(http.StatusNotFound, "notFound", "The resource '%s' was not found", resource)
}

// write answers a request with an error in the form of Google's APIs.
func (f *fault) write(w http.ResponseWriter) {
	type detail struct {
		Message string `json:"message"`
		Domain  string `json:"domain"`
		Reason  string `json:"reason"`
	}
	var body struct {
		Error struct {
			Code    int      `json:"code"`
			Message string   `json:"message"`
			Errors  []detail `json:"errors"`
			Status  string   `json:"status,omitempty"`
		} `json:"error"`
	}
	body.Error.Code, body.Error.Message = f.code, f.message
	body.Error.Errors = []detail{{f.message, "global", f.reason}}
	if f.code == http.StatusUnauthorized {
		body.Error.Status = "UNAUTHENTICATED"
	}
	writeJSON(w, f.code, body)
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
