package objects_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/operator/objects"
)

func TestRetry(t *testing.T) {
	refusal := errors.New("refused")
	conflicting := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("changed"))
	late := fmt.Errorf("patch: %w", context.DeadlineExceeded)
	for name, test := range map[string]struct {
		answers []error // the last one is repeated
		calls   int
		want    error
	}{
		"success":            {[]error{nil}, 1, nil},
		"another error":      {[]error{refusal}, 1, refusal},
		"a deadline":         {[]error{late}, 1, late},
		"two conflicts":      {[]error{conflicting, conflicting, nil}, 3, nil},
		"a deadline later":   {[]error{conflicting, late}, 2, late},
		"conflicts for ever": {[]error{conflicting}, 9, conflicting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			err := objects.RetryOnConflict(t.Context(), func() error {
				calls++
				return test.answers[min(calls, len(test.answers))-1]
			})
			if !errors.Is(err, test.want) || calls != test.calls {
				t.Errorf("returned %v after %d calls, want %v after %d", err, calls, test.want, test.calls)
			}
		})
	}
}

func TestRetryEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	conflicting := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("changed"))
	calls := 0
	err := objects.RetryOnConflict(ctx, func() error {
		calls++
		cancel()
		return conflicting
	})
	if !errors.Is(err, conflicting) || calls != 1 {
		t.Errorf("returned %v after %d calls, want the conflict after one", err, calls)
	}
}
