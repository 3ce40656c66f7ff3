package objects

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestRefused(t *testing.T) {
	resource := schema.GroupResource{Resource: "services"}
	immutable := apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "a", field.ErrorList{field.Invalid(field.NewPath("spec"), "b", "field is immutable")})
	// As ValidatingAdmissionPolicies answer.
	policy := apierrors.NewForbidden(resource, "a", errors.New("denied request: no"))
	policy.ErrStatus.Reason, policy.ErrStatus.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
	policy.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "no"}}
	webhook := apierrors.NewConflict(resource, "a", errors.New(`admission webhook "a" denied the request`))
	for _, tc := range []struct {
		name                  string
		err                   error
		refused, invalidField bool
	}{
		{"no error", nil, false, false},
		{"no response", errors.New("connection refused"), false, false},
		{"an immutable field", fmt.Errorf("applying: %w", immutable), true, true},
		{"a policy", fmt.Errorf("applying: %w", policy), true, false},
		{"a webhook with a code of its own", webhook, true, false},
		{"a webhook that does not answer", apierrors.NewInternalError(errors.New(`failed calling webhook "a": timeout`)), true, false},
		{"a quota, or missing permissions", apierrors.NewForbidden(resource, "a", errors.New("no")), true, false},
		{"an API that is not served", &meta.NoKindMatchError{}, true, false},
		{"an API server that fails", apierrors.NewInternalError(errors.New("leader changed")), false, false},
		{"an API server that is busy", apierrors.NewTooManyRequests("busy", 1), false, false},
		{"a conflict", apierrors.NewConflict(resource, "a", errors.New("changed")), false, false},
		{"an object that is gone", apierrors.NewNotFound(resource, "a"), false, false},
		{"a token that has expired", apierrors.NewUnauthorized("expired"), false, false},
	} {
		assert.Equalf(t, tc.refused, Refused(tc.err), "%s: refused", tc.name)
		assert.Equalf(t, tc.invalidField, invalidField(tc.err), "%s: invalid field", tc.name)
	}
}

func TestReadiness(t *testing.T) {
	isSet := func(r *Readiness) bool {
		select {
		case <-r.Done():
			return true
		default:
			return false
		}
	}
	ready := NewReadiness()
	for i := 1; i <= attempts+1; i++ {
		ready.Fail()
		assert.Equalf(t, i >= attempts, isSet(ready), "after %d failures, set", i)
	}
	ready = NewReadiness()
	ready.Set()
	ready.Set()
	assert.True(t, isSet(ready), "it was set, and is not")
}
