package openstack

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Call is a request that the cloud received.
type Call struct {
	Service      Service // empty if the cloud does not know the request
	Method       string
	Path         string // below the service's endpoint
	Route        string // the path with {id} for IDs; empty if the cloud does not know the request
	Action       string // the action of a request to …/action
	Login        string // method of a request for a token, such as "application_credential"
	Query        url.Values
	Project      string // of the token
	Microversion string // if one was asked for
	UserAgent    string
	Code         int // of the response; 0 until then
}

// String returns the call without differences between runs.
func (call Call) String() string {
	text := fmt.Sprintf("%s %s %s", call.Service, call.Method, call.Route)
	if call.Route == "" {
		text = fmt.Sprintf("unknown %s %s", call.Method, call.Path)
	}
	if call.Action != "" {
		text += " " + call.Action
	}
	if len(call.Query) > 0 {
		text += " ?" + strings.Join(slices.Sorted(maps.Keys(call.Query)), "&")
	}
	if call.Microversion != "" {
		text += " @" + call.Microversion
	}
	return fmt.Sprintf("%s = %d", text, call.Code)
}

// Calls returns the requests that the cloud has received, in their order.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var calls []Call
	for _, call := range c.calls {
		calls = append(calls, *call)
	}
	return calls
}

// Asked returns the number of requests for the share types.
func (c *Cloud) Asked() int {
	asked := 0
	for _, call := range c.Calls() {
		if call.Service == Manila && call.Route == "/types" {
			asked++
		}
	}
	return asked
}

func (c *Cloud) record(s service, route route, r *http.Request, body []byte) *Call {
	call := &Call{Service: s.name, Method: r.Method, Query: r.URL.Query(), UserAgent: r.UserAgent(), Microversion: s.versions.asked(r)}
	prefix := strings.ReplaceAll(s.prefix, "{project}", r.PathValue("project"))
	call.Path = strings.TrimPrefix(r.URL.Path, prefix)
	if _, path, found := strings.Cut(route.pattern, " "); found {
		call.Route = strings.TrimSuffix(path, "{$}")
	}
	if strings.HasSuffix(call.Route, "/action") {
		var actions map[string]json.RawMessage
		if json.Unmarshal(body, &actions) == nil && len(actions) == 1 {
			call.Action = slices.Collect(maps.Keys(actions))[0]
		}
	}
	if s.name == Keystone && r.Method == http.MethodPost {
		var login struct {
			Auth struct{ Identity struct{ Methods []string } }
		}
		if json.Unmarshal(body, &login) == nil {
			call.Login = strings.Join(login.Auth.Identity.Methods, ", ")
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	return call
}
