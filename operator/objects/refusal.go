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

// passing are the codes of responses after which a retry of the request may succeed.
var passing = []int32{http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests}

// Refused reports whether the API server will refuse a request until somebody changes the cluster: because of a policy,
// a webhook (even an unreachable one), a quota, validation or missing permissions, or because the cluster does not
// serve the kind.
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

// invalidField reports whether the API server refuses an update because of a field's new value, for example because the
// field is immutable. Policies refuse objects with the same code, but name no field.
func invalidField(err error) bool {
	var response apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &response) || response.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(response.Status().Details.Causes, func(cause metav1.StatusCause) bool { return cause.Field != "" })
}

// attempts is how often objects are applied before the driver's pods start without the failed objects. Most errors are
// gone by then.
const attempts = 3

// A Readiness tells when the pods' prerequisites are applied, or have failed often enough. An object that is always
// refused must not block updates of the pods.
type Readiness struct {
	once     sync.Once
	done     chan struct{}
	failures int
}

// NewReadiness returns a readiness that is not set.
func NewReadiness() *Readiness { return &Readiness{done: make(chan struct{})} }

// Done returns a channel that is closed once the readiness is set.
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
