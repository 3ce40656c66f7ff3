// Package openstack is a fake OpenStack cloud. It implements the protocols of Keystone, for logins, and of Manila, as
// far as share types need them.
package openstack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// The credentials of the cloud's only user, and the token that they give.
const (
	user, password, project = "berth", "secret", "harbour"
	region                  = "sea-1"
	token                   = "gAAAAA-token"
	projectID               = "5b9a0c3d"
)

// State is the state of a service.
type State string

const (
	// Up is a service that works.
	Up State = "up"
	// Down breaks each connection.
	Down State = "down"
	// Hung does not respond until the client gives up.
	Hung State = "hung"
	// Forbidden rejects all requests of the user.
	Forbidden State = "forbidden"
	// Absent is a cloud without Manila.
	Absent State = "absent"
)

// Cloud is an OpenStack cloud on loopback.
type Cloud struct {
	server *httptest.Server

	mu     sync.Mutex
	manila State
	types  []string
	asked  int
}

// Start starts a cloud until the test ends. Its Manila is up and has the share types.
func Start(t testing.TB, types ...string) *Cloud {
	c := &Cloud{manila: Up, types: types}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /identity/v3/auth/tokens", c.login)
	mux.HandleFunc("GET /share/v2", c.versions)
	mux.HandleFunc("GET /share/v2/{$}", c.versions)
	mux.HandleFunc("GET /share/v2/types", c.listTypes)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, fmt.Sprintf("this cloud does not know %s %s", r.Method, r.URL))
	})
	c.server = httptest.NewServer(mux)
	t.Cleanup(func() {
		c.server.CloseClientConnections() // of hung requests
		c.server.Close()
	})
	return c
}

// CloudsYAML returns clouds.yaml, with the cloud "openstack".
func (c *Cloud) CloudsYAML() []byte { return c.cloudsYAML(password) }

// WrongCloudsYAML returns the same with a wrong password.
func (c *Cloud) WrongCloudsYAML() []byte { return c.cloudsYAML("guessed") }

func (c *Cloud) cloudsYAML(password string) []byte {
	return fmt.Appendf(nil, `clouds:
  openstack:
    auth:
      auth_url: %s/identity/v3
      username: %s
      password: %s
      project_name: %s
      user_domain_name: Default
      project_domain_name: Default
    cacert: /etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem
    region_name: %s
    identity_api_version: "3"
    verify: true
`, c.server.URL, user, password, project, region)
}

// SetManila sets the state of Manila.
func (c *Cloud) SetManila(state State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.manila = state
}

// SetShareTypes sets the share types.
func (c *Cloud) SetShareTypes(types ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.types = types
}

// Asked returns the number of requests for the share types.
func (c *Cloud) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *Cloud) now() (State, []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.manila, c.types
}

// login responds like Keystone: with a token in a header, and the catalog of services.
func (c *Cloud) login(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Auth struct {
			Identity struct {
				Password struct {
					User struct{ Name, Password string }
				}
			}
			Scope struct{ Project struct{ Name string } }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if u := asked.Auth.Identity.Password.User; u.Name != user || u.Password != password || asked.Auth.Scope.Project.Name != project {
		fail(w, http.StatusUnauthorized, "The request you have made requires authentication.")
		return
	}
	service := func(kind, path string) map[string]any {
		return map[string]any{"type": kind, "name": kind, "id": kind, "endpoints": []map[string]any{
			{"id": kind, "interface": "public", "region": region, "region_id": region, "url": c.server.URL + path}}}
	}
	catalog := []map[string]any{service("identity", "/identity/v3")}
	if state, _ := c.now(); state != Absent {
		catalog = append(catalog, service("sharev2", "/share/v2"))
	}
	w.Header().Set("X-Subject-Token", token)
	answer(w, http.StatusCreated, map[string]any{"token": map[string]any{
		"methods": []string{"password"}, "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		"project": map[string]any{"id": projectID, "name": project}, "catalog": catalog,
	}})
}

func (c *Cloud) versions(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"versions": []map[string]any{{
		"id": "v2.0", "status": "CURRENT", "version": "2.75", "min_version": "2.0",
		"links": []map[string]any{{"rel": "self", "href": c.server.URL + "/share/v2/"}},
	}}})
}

func (c *Cloud) listTypes(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.asked++
	c.mu.Unlock()
	state, types := c.now()
	switch {
	case state == Down:
		panic(http.ErrAbortHandler)
	case state == Hung:
		<-r.Context().Done()
	case state == Forbidden:
		fail(w, http.StatusForbidden, "Policy doesn't allow share_type:index to be performed.")
	case r.Header.Get("X-Auth-Token") != token:
		fail(w, http.StatusUnauthorized, "The request you have made requires authentication.")
	default:
		list := []map[string]any{}
		for _, name := range types {
			list = append(list, map[string]any{"id": "id-of-" + strings.ToLower(name), "name": name,
				"os-share-type-access:is_public": true, "extra_specs": map[string]any{}, "required_extra_specs": map[string]any{}})
		}
		answer(w, http.StatusOK, map[string]any{"share_types": list})
	}
}

func fail(w http.ResponseWriter, code int, message string) {
	answer(w, code, map[string]any{"error": map[string]any{"code": code, "message": message}})
}

func answer(w http.ResponseWriter, code int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(content) // the client may be gone
}
