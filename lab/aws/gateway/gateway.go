// Package gateway is in front of the services of a fake AWS. It checks who makes a request and whether they may, records
// the request, and makes it slow or lets it fail where a test wants that.
package gateway

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/berth-csi/berth/lab/aws/iam"
)

// maxBody is more than the largest request of any service.
const maxBody = 1 << 20

// Error is how a service refuses a request.
type Error struct {
	// Status is the HTTP status.
	Status        int
	Code, Message string
	// Details are further fields of the body, for services that have them.
	Details map[string]string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf returns an error with status 400, which most have.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Request is a request to a service.
type Request struct {
	HTTP *http.Request
	Body []byte
	// ID is unique.
	ID string
	// Action is the API action, such as "CreateVolume".
	Action string
	// Parameters are recorded. Their names depend on the service's protocol.
	Parameters map[string]string
	// Principal is zero for the actions that need no signature.
	Principal iam.Principal
}

// Handler serves a request and returns the response, in a type of the service.
type Handler func(*Request) (response any, err *Error)

// Service is a service behind the gateway.
type Service struct {
	// Name is the service name in signatures, such as "elasticfilesystem".
	Name string
	// Read finds the action and the parameters of a request.
	Read func(*Request) *Error
	// Handlers are the actions of the service.
	Handlers map[string]Handler
	// Unsigned are actions that anybody may call.
	Unsigned []string
	// Free are actions that every principal may call.
	Free []string
	// Also returns further actions that a request needs permission for. It may be nil.
	Also func(*Request) []string
	// Write writes the response of a handler.
	Write func(http.ResponseWriter, *Request, any)
	// Fail writes an error.
	Fail func(http.ResponseWriter, *Request, *Error)
	// Refusals are the errors that all services return, each with its own codes.
	Refusals Refusals
}

// Refusals are a service's errors for requests that the gateway refuses.
type Refusals struct {
	Unsigned, Unknown, Signature, Expired, Throttled, Unavailable Error
	// Denied has a message with two %s, for the principal and the action.
	Denied Error
}

// Call is the record of a request.
type Call struct {
	Time            time.Time
	Service, Action string
	// Principal is the ARN of who called. It is empty if they are not known.
	Principal  string
	UserAgent  string
	Parameters map[string]string
	// Error is the code of the error. It is empty if the call succeeded.
	Error string
	// Lost says that the request was carried out, and the caller got no response.
	Lost bool
}

// Kind says how a request fails.
type Kind string

const (
	// Throttled requests are refused because there are too many of them.
	Throttled Kind = "throttled"
	// Denied requests are refused because no policy allows them.
	Denied Kind = "denied"
	// Unavailable is the service's answer that it does not work.
	Unavailable Kind = "unavailable"
	// Broken requests get no response, because the connection ends.
	Broken Kind = "broken"
)

// Fault disturbs the requests that match Service, Action and Principal. Each is a pattern; an empty one matches all.
type Fault struct {
	Service, Action, Principal string
	// Times is how many requests are affected, or 0 for all.
	Times int
	// Delay is how long a request waits before anything else happens. It ends early if the client gives up.
	Delay time.Duration
	// Kind and Error say how the request fails. With neither, it is only delayed.
	Kind  Kind
	Error *Error
	// After lets the request fail only after it has been carried out.
	After bool
}

// Gateway is in front of services. Use New.
type Gateway struct {
	region    string
	directory *iam.Directory

	mu     sync.Mutex
	calls  []Call
	faults []*Fault
}

// New returns a gateway for a region.
func New(region string, directory *iam.Directory) *Gateway {
	return &Gateway{region: region, directory: directory}
}

// Calls returns all requests so far, in the order they ended.
func (g *Gateway) Calls() []Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.calls)
}

// Inject makes requests go wrong, until remove is called. Of several faults that match a request, the first that was
// injected applies.
func (g *Gateway) Inject(fault Fault) (remove func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := &fault
	if f.Times == 0 {
		f.Times = -1
	}
	g.faults = append(g.faults, f)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.faults = slices.DeleteFunc(g.faults, func(other *Fault) bool { return other == f })
	}
}

// Serve returns the handler for a service's requests.
func (g *Gateway) Serve(s Service) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := &Request{HTTP: r, ID: string(uuid.NewUUID())}
		response, err, lost := g.handle(s, request)
		call := Call{Time: time.Now(), Service: s.Name, Action: request.Action, Principal: request.Principal.ARN, UserAgent: r.UserAgent(), Parameters: request.Parameters, Lost: lost}
		if err != nil {
			call.Error = err.Code
		}
		g.mu.Lock()
		g.calls = append(g.calls, call)
		g.mu.Unlock()
		switch {
		case lost || err != nil && err.Code == string(Broken):
			panic(http.ErrAbortHandler)
		case err != nil:
			s.Fail(w, request, err)
		default:
			s.Write(w, request, response)
		}
	})
}

func (g *Gateway) handle(s Service, r *Request) (response any, err *Error, lost bool) {
	body, readErr := io.ReadAll(http.MaxBytesReader(nil, r.HTTP.Body, maxBody))
	if readErr != nil {
		return nil, Errorf("MalformedRequest", "reading the request: %v", readErr), false
	}
	r.Body = body
	r.HTTP.Body = io.NopCloser(bytes.NewReader(body))
	if err := s.Read(r); err != nil {
		return nil, err, false
	}
	if !slices.Contains(s.Unsigned, r.Action) {
		principal, err := g.authenticate(s, r)
		r.Principal = principal
		if err != nil {
			return nil, err, false
		}
		actions := []string{r.Action}
		if s.Also != nil {
			actions = append(actions, s.Also(r)...)
		}
		for _, action := range actions {
			if !slices.Contains(s.Free, action) && !principal.May(s.Name+":"+action) {
				return nil, s.Refusals.denied(principal, s.Name, action), false
			}
		}
	}
	handler, ok := s.Handlers[r.Action]
	if !ok {
		return nil, Errorf("InvalidAction", "The action %s is not valid for this web service.", r.Action), false
	}
	fault := g.fault(s, r)
	if fault == nil {
		response, err = handler(r)
		return response, err, false
	}
	if !wait(r, fault.Delay) {
		return nil, &Error{Code: string(Broken), Message: "the client gave up"}, false
	}
	failure := fault.failure(s, r)
	if failure == nil || fault.After {
		response, err = handler(r)
	}
	switch {
	case err != nil || failure == nil:
		return response, err, false
	case fault.After && fault.Kind == Broken:
		return nil, nil, true
	}
	return nil, failure, false
}

// fault returns the fault for a request, or nil.
func (g *Gateway) fault(s Service, r *Request) *Fault {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.faults {
		if f.Times != 0 && matches(f.Service, s.Name) && matches(f.Action, r.Action) && matches(f.Principal, r.Principal.ARN) {
			if f.Times > 0 {
				f.Times--
			}
			return f
		}
	}
	return nil
}

func matches(pattern, text string) bool {
	matched, err := path.Match(pattern, text)
	return pattern == "" || pattern == text || err == nil && matched
}

// failure returns the error of a fault.
func (f *Fault) failure(s Service, r *Request) *Error {
	if f.Error != nil {
		return f.Error
	}
	switch f.Kind {
	case Throttled:
		return &s.Refusals.Throttled
	case Denied:
		return s.Refusals.denied(r.Principal, s.Name, r.Action)
	case Unavailable:
		return &s.Refusals.Unavailable
	case Broken:
		return &Error{Code: string(Broken), Message: "the connection is broken"}
	}
	return nil
}

func (r Refusals) denied(p iam.Principal, service, action string) *Error {
	refusal := r.Denied
	refusal.Message = fmt.Sprintf(refusal.Message, p.ARN, service+":"+action)
	return &refusal
}

// wait returns false if the client gives up first.
func wait(r *Request, delay time.Duration) bool {
	if delay == 0 {
		return true
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.HTTP.Context().Done():
		return false
	}
}

// NewID returns an ID for a resource, such as "vol-0123456789abcdef0".
func NewID(prefix string) string {
	random := make([]byte, 9)
	_, _ = rand.Read(random) // never fails
	return prefix + fmt.Sprintf("%x", random)[:17]
}
