package objects

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// passing are the codes of responses that mean nothing about the request: repeated, it may succeed.
var passing = []int32{http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests}

// Refused reports whether the API server refuses a request for what is in it, and will until somebody changes the cluster: a
// policy, a webhook (also one that cannot be reached), a quota, validation or missing permissions refuse it, or the cluster
// does not serve the kind.
func Refused(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	var response apierrors.APIStatus
	if !errors.As(err, &response) {
		return false
	}
	status := response.Status()
	for _, phrase := range []string{"admission webhook ", "failed calling webhook "} { // a webhook chooses the code
		if strings.Contains(status.Message, phrase) {
			return true
		}
	}
	return status.Code >= 400 && status.Code < 500 && !slices.Contains(passing, status.Code)
}

// invalidField reports whether the API server refuses an update because of the new value of a field, for example one that
// is immutable. Policies refuse objects with the same code, but name no field.
func invalidField(err error) bool {
	var response apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &response) || response.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(response.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field != "" })
}

// attempts is the number of times that objects are applied before the driver's pods start without those that failed. Most
// errors pass before.
const attempts = 3

// A Readiness tells when the objects are applied that pods need before they start, or when that was tried often enough: an
// object that is always refused must not keep the pods from being updated.
type Readiness struct {
	once     sync.Once
	done     chan struct{}
	failures int
}

// NewReadiness returns a readiness that is not set.
func NewReadiness() *Readiness { return &Readiness{done: make(chan struct{})} }

// Done is closed once the readiness is set.
func (r *Readiness) Done() <-chan struct{} { return r.done }

// IsSet reports whether the readiness is set.
func (r *Readiness) IsSet() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Set sets the readiness.
func (r *Readiness) Set() { r.once.Do(func() { close(r.done) }) }

// Fail records an attempt that failed. It is not safe to call concurrently.
func (r *Readiness) Fail() {
	if r.failures++; r.failures >= attempts {
		r.Set()
	}
}
