package openstack

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// State is the state of Manila.
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

// SetManila sets the state of Manila.
func (c *Cloud) SetManila(state State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.manila = state
}

// Fault makes some requests fail, or delays them.
type Fault struct {
	Service Service // the requests' service; empty for any
	Method  string  // empty for any
	Route   string  // as in Call; empty for any
	Action  string  // as in Call; empty for any
	Times   int     // how many requests; 0 for all until the fault is removed

	Delay   time.Duration // wait so long first
	Until   chan struct{} // wait until it is closed first
	Broken  bool          // break the connection
	Hung    bool          // do not respond until the client gives up
	Code    int           // respond with this code; 0 serves the request
	Message string        // of the response; empty for the service's message for that code

	matched int
}

// Inject makes requests meet a fault from now on, and returns a function that removes it. If several faults match, the
// first applies.
func (c *Cloud) Inject(fault Fault) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &fault
	c.faults = append(c.faults, f)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.faults = slices.DeleteFunc(c.faults, func(other *Fault) bool { return other == f })
	}
}

func (f *Fault) matches(call Call) bool {
	return (f.Service == "" || f.Service == call.Service) && (f.Method == "" || f.Method == call.Method) &&
		(f.Route == "" || f.Route == call.Route) && (f.Action == "" || f.Action == call.Action) &&
		(f.Times == 0 || f.matched < f.Times)
}

// obstruct applies the fault that a request meets. The cloud is unlocked while the fault lasts.
func (c *Cloud) obstruct(r *http.Request, call Call, policy string) error {
	fault := c.faultOf(call)
	c.mu.Unlock()
	defer c.mu.Lock()
	if fault.Delay > 0 {
		select {
		case <-time.After(fault.Delay):
		case <-r.Context().Done():
		}
	}
	if fault.Until != nil {
		select {
		case <-fault.Until:
		case <-r.Context().Done():
		}
	}
	if fault.Hung {
		<-r.Context().Done()
	}
	if fault.Broken || r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	if fault.Code == 0 {
		return nil
	}
	message := fault.Message
	if message == "" && fault.Code == http.StatusForbidden {
		message = fmt.Sprintf("Policy doesn't allow %s to be performed.", policy)
	}
	return failure{fault.Code, cmp.Or(message, defaultMessages[fault.Code], http.StatusText(fault.Code))}
}

func (c *Cloud) faultOf(call Call) Fault {
	if call.Service == Manila {
		switch c.manila {
		case Down:
			return Fault{Broken: true}
		case Hung:
			return Fault{Hung: true}
		case Forbidden:
			return Fault{Code: http.StatusForbidden}
		}
	}
	for _, f := range c.faults {
		if f.matches(call) {
			f.matched++
			return *f
		}
	}
	return Fault{}
}

// Operation is work that the cloud does in the background after a request.
type Operation string

// Operations that can fail.
const (
	CreateShare          Operation = "create a share"
	ExtendShare          Operation = "extend a share"
	DeleteShare          Operation = "delete a share"
	CreateShareSnapshot  Operation = "create a snapshot of a share"
	CreateVolume         Operation = "create a volume"
	ExtendVolume         Operation = "extend a volume"
	DeleteVolume         Operation = "delete a volume"
	CreateVolumeSnapshot Operation = "create a snapshot of a volume"
	AttachVolume         Operation = "attach a volume"
)

// Fail makes the next such operation fail. Manila reports why in a message with this detail, such as NoCapacity; the
// other services say nothing.
func (c *Cloud) Fail(operation Operation, detail string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures[operation] = append(c.failures[operation], detail)
}

// fails reports whether an operation fails, and why.
func (c *Cloud) fails(operation Operation) (detail string, fails bool) {
	pending := c.failures[operation]
	if len(pending) == 0 {
		return "", false
	}
	c.failures[operation] = pending[1:]
	return pending[0], true
}

// Quota limits a project's resources of each kind. 0 is no limit.
type Quota struct {
	Shares, ShareGigabytes, ShareSnapshots int
	Volumes, Gigabytes, VolumeSnapshots    int // Gigabytes counts volumes and their snapshots
}

// SetQuota sets the limits of every project.
func (c *Cloud) SetQuota(quota Quota) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quota = quota
}

// exceeds reports whether a project that has some of a limited resource may not have more.
func exceeds(limit, has, more int) bool { return limit > 0 && has+more > limit }

// failure is an error of a service.
type failure struct {
	code    int
	message string
}

func (f failure) Error() string { return fmt.Sprintf("%d: %s", f.code, f.message) }

func badRequest(format string, args ...any) failure {
	return failure{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func forbidden(format string, args ...any) failure {
	return failure{http.StatusForbidden, fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) failure {
	return failure{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// overLimit returns the failure for an exceeded quota. The message begins with the name of the service's exception.
func overLimit(format string, args ...any) failure {
	return failure{http.StatusRequestEntityTooLarge, fmt.Sprintf(format, args...)}
}

// noSuchResource is Manila's response without details.
var noSuchResource = notFound("The resource could not be found.")

var unauthorized = failure{http.StatusUnauthorized, "The request you have made requires authentication."}

// faultNames are the keys of error bodies in Manila, Cinder and Nova. Other codes have computeFault, in all three.
var faultNames = map[int]string{400: "badRequest", 401: "unauthorized", 403: "forbidden", 404: "itemNotFound", 405: "badMethod",
	409: "conflictingRequest", 413: "overLimit", 415: "badMediaType", 429: "overLimit", 501: "notImplemented", 503: "serviceUnavailable"}

var defaultMessages = map[int]string{
	http.StatusRequestEntityTooLarge: "This request was rate-limited.",
	http.StatusTooManyRequests:       "This request was rate-limited.",
	http.StatusInternalServerError:   "The server has either erred or is incapable of performing the requested operation.",
	http.StatusServiceUnavailable:    "The server is currently unavailable. Please try again at a later time.",
}

// asFault formats an error as a service does.
func asFault(of Service, err error) reply {
	var f failure
	if !errors.As(err, &f) {
		f = badRequest("%v", err)
	}
	result := reply{code: f.code, header: map[string]string{}}
	if of == Keystone || of == "" || f.code == http.StatusUnauthorized { // services leave tokens to Keystone's middleware
		result.header["WWW-Authenticate"] = `Keystone uri="/identity"`
		result.body = map[string]any{"error": map[string]any{"code": f.code, "title": http.StatusText(f.code), "message": f.message}}
		return result
	}
	content := map[string]any{"code": f.code, "message": f.message}
	if f.code == http.StatusRequestEntityTooLarge || f.code == http.StatusTooManyRequests {
		result.header["Retry-After"] = "0"
		content["retryAfter"] = "0"
	}
	result.body = map[string]any{cmp.Or(faultNames[f.code], "computeFault"): content}
	return result
}

// versions are the microversions that a service supports, all of one major version.
type versions struct {
	major, max int
	min        int    // without a header, too
	header     string // whose value is only a version
	standard   string // name of the service in OpenStack-API-Version
}

func (v versions) String() string { return fmt.Sprintf("%d.%d", v.major, v.max) }

// asked returns the microversion that a request asks for, if any.
func (v versions) asked(r *http.Request) string {
	if name, version, found := strings.Cut(r.Header.Get("OpenStack-API-Version"), " "); found && name == v.standard {
		return version
	}
	return r.Header.Get(v.header)
}

// minor returns the minor part of a microversion that a request asked for.
func (v versions) minor(asked string) (int, error) {
	switch asked {
	case "":
		return v.min, nil
	case "latest":
		return v.max, nil
	}
	major, rest, found := strings.Cut(asked, ".")
	minor, err := strconv.Atoi(rest)
	if !found || err != nil || major != strconv.Itoa(v.major) || minor < v.min || minor > v.max {
		return 0, failure{http.StatusNotAcceptable, fmt.Sprintf(
			"Version %s is not supported by the API. Minimum is %d.%d and maximum is %v.", asked, v.major, v.min, v)}
	}
	return minor, nil
}

// decode returns the value of a key in a request's body.
func decode[T any](r *request, key string) (T, error) {
	var content map[string]json.RawMessage
	var value T
	if err := json.Unmarshal(r.body, &content); err != nil {
		return value, badRequest("Malformed request body: %v", err)
	}
	if content[key] == nil {
		return value, badRequest("Missing required element '%s' in request body.", key)
	}
	if err := json.Unmarshal(content[key], &value); err != nil {
		return value, badRequest("Malformed request body: %v", err)
	}
	return value, nil
}
