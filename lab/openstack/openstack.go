// Package openstack simulates an OpenStack cloud at the wire protocol that gophercloud speaks: Keystone, Manila,
// Cinder, Nova, and the metadata service of instances. A cloud keeps state, responds with the errors of the real
// services, can be slow, refuse or fail, and records every request. Bodies, codes and messages come from the services'
// sources.
package openstack

import (
	"cmp"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-csi/berth/lab/authority"
)

// Service is a service of a cloud.
type Service string

// The services that a cloud has.
const (
	Keystone Service = "keystone"
	Manila   Service = "manila"
	Cinder   Service = "cinder"
	Nova     Service = "nova"
	Metadata Service = "metadata"
)

// Options are the initial settings of a cloud.
type Options struct {
	ShareTypes []string // names of public share types
	TLS        bool     // serve https, with a certificate of the cloud's own CA
	Address    string   // to listen on; 127.0.0.1 and a free port if empty
	// Public is the address, "IP:port", that the catalog and the certificate name, if clients do not reach the cloud at
	// Address. Somebody has to forward it.
	Public string
	// Files is a folder for the files of shares and their snapshots. Without it, shares have no files.
	Files string
}

// Cloud is an OpenStack cloud.
type Cloud struct {
	server *httptest.Server
	url    string // for clients
	files  string // folder; Options.Files
	ca     []byte

	mu         sync.Mutex // also locked while a request is served
	calls      []*Call
	faults     []*Fault
	failures   map[Operation][]string // messages of the next operations, which fail
	operations []operation
	latency    time.Duration
	manila     State
	quota      Quota
	zones      map[Service][]Zone

	keystone keystone
	shares   sharedFileSystems
	volumes  blockStorage
	servers  compute
}

// Start starts a cloud on loopback until the test ends. Its Manila is up and has the share types.
func Start(t testing.TB, types ...string) *Cloud {
	t.Helper()
	return StartWith(t, Options{ShareTypes: types})
}

// StartWith starts a cloud until the test ends.
func StartWith(t testing.TB, options Options) *Cloud {
	t.Helper()
	c := &Cloud{files: options.Files, manila: Up, failures: map[Operation][]string{}, keystone: newKeystone(), servers: newCompute(),
		zones: map[Service][]Zone{Nova: {{Name: shareZone}}, Cinder: {{Name: shareZone}}}}
	c.SetShareTypes(options.ShareTypes...)
	mux := http.NewServeMux()
	for _, s := range []service{c.keystoneService(), c.manilaService(), c.cinderService(), c.novaService()} {
		for _, r := range s.routes {
			method, path, _ := strings.Cut(r.pattern, " ")
			mux.Handle(method+" "+s.prefix+path, c.handler(s, r))
		}
	}
	mux.HandleFunc("/", c.unknown)
	c.server = httptest.NewUnstartedServer(mux)
	c.server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust the CA are part of tests
	if options.Address != "" {
		listener, err := net.Listen("tcp", options.Address)
		if err != nil {
			t.Fatalf("the address of the OpenStack cloud: %v", err)
		}
		c.server.Listener.Close()
		c.server.Listener = listener
	}
	public := cmp.Or(options.Public, c.server.Listener.Addr().String())
	c.url = "http://" + public
	if options.TLS {
		c.url = "https://" + public
		ca, err := authority.New("CA of the OpenStack cloud")
		if err != nil {
			t.Fatal(err)
		}
		host, _, err := net.SplitHostPort(public)
		if err != nil {
			t.Fatal(err)
		}
		if c.server.TLS, err = ca.Config([]string{host}); err != nil {
			t.Fatal(err)
		}
		c.ca = ca.PEM()
		c.server.StartTLS()
	} else {
		c.server.Start()
	}
	t.Cleanup(func() {
		c.server.CloseClientConnections() // of requests without a response
		c.server.Close()
	})
	return c
}

// Address returns the address, "IP:port", that the cloud listens on.
func (c *Cloud) Address() string { return c.server.Listener.Addr().String() }

// CA returns the CA of the cloud's certificate in PEM format, or nothing if the cloud serves no TLS.
func (c *Cloud) CA() []byte { return c.ca }

// SetLatency sets the duration of operations that a request begins, such as the creation of a share. With 0, as at first, the next request
// finds them finished.
func (c *Cloud) SetLatency(latency time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latency = latency
}

// service is an API of the cloud.
type service struct {
	name     Service
	prefix   string // of the paths; {project} is a project's ID
	versions versions
	routes   []route
}

// route is a kind of request that a service knows.
type route struct {
	pattern string // of method and path, as in http.ServeMux
	policy  string // that the service checks; empty for requests without a token
	serve   func(*request) (reply, error)
}

// request is a request with a valid token, if it needs one.
type request struct {
	*http.Request
	body    []byte
	project *project
	minor   int // microversion
}

// reply is a response that is no error.
type reply struct {
	code   int
	body   any // nil for none
	header map[string]string
}

func ok(body any) (reply, error)       { return reply{code: http.StatusOK, body: body}, nil }
func accepted(body any) (reply, error) { return reply{code: http.StatusAccepted, body: body}, nil }

// handler serves the requests of a route. The cloud is locked while it prepares a response, but not while it sends it.
func (c *Cloud) handler(s service, route route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		call := c.record(s, route, r, body)
		var result reply
		if err == nil {
			result, err = c.respond(s, route, r, body, call)
		}
		if err != nil {
			result = asFault(s.name, err)
		}
		c.mu.Lock()
		call.Code = result.code
		c.mu.Unlock()
		send(w, result)
	}
}

func (c *Cloud) respond(s service, route route, r *http.Request, body []byte, call *Call) (reply, error) {
	asked := &request{Request: r, body: body}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	if route.policy != "" {
		project, err := c.keystone.authenticate(r.Header.Get("X-Auth-Token"))
		if err != nil {
			return reply{}, err
		}
		asked.project, call.Project = project, project.name
	}
	if err := c.obstruct(r, *call, route.policy); err != nil {
		return reply{}, err
	}
	c.settle() // the fault may have taken a while
	if id := r.PathValue("project"); id != "" && id != asked.project.id {
		return reply{}, failure{http.StatusBadRequest, "Malformed request url"}
	}
	var err error
	if asked.minor, err = s.versions.minor(call.Microversion); err != nil {
		return reply{}, err
	}
	return route.serve(asked)
}

// unknown responds to requests that the cloud does not know.
func (c *Cloud) unknown(w http.ResponseWriter, r *http.Request) {
	call := c.record(service{}, route{}, r, nil)
	c.mu.Lock()
	call.Code = http.StatusNotFound
	c.mu.Unlock()
	send(w, asFault("", failure{http.StatusNotFound, "this cloud does not know " + r.Method + " " + r.URL.Path}))
}

func send(w http.ResponseWriter, result reply) {
	for name, value := range result.header {
		w.Header().Set(name, value)
	}
	if result.body != nil {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(result.code)
	if result.body != nil {
		_ = json.NewEncoder(w).Encode(result.body) // the client may be gone
	}
}

// operation is work that the cloud finishes in the background.
type operation struct {
	due    time.Time
	finish func()
}

// later finishes an operation after the cloud's latency.
func (c *Cloud) later(finish func()) {
	c.operations = append(c.operations, operation{time.Now().Add(c.latency), finish})
}

// settle finishes the operations that are due, in the order they began.
func (c *Cloud) settle() {
	now := time.Now()
	var waiting, due []operation
	for _, o := range c.operations {
		if now.Before(o.due) {
			waiting = append(waiting, o)
		} else {
			due = append(due, o)
		}
	}
	c.operations = waiting
	for _, o := range due {
		o.finish()
	}
}

// timestamp formats a time as the services do: in UTC, without saying so.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000") }
