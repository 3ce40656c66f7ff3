package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestUntil(t *testing.T) {
	notYet, cancelled := errors.New("not yet"), errors.New("no longer wanted")
	ended, end := context.WithCancelCause(t.Context())
	end(cancelled)

	calls := 0
	if err := Until(t.Context(), "the third call", func(context.Context) error {
		if calls++; calls < 3 {
			return notYet
		}
		return nil
	}); err != nil || calls != 3 {
		t.Errorf("got %v after %d calls, want success at the third", err, calls)
	}

	// The last error counts, except one caused by the end itself.
	short, done := context.WithTimeout(t.Context(), 10*polling.Duration)
	defer done()
	err := Until(short, "what never comes", func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return notYet
	})
	if !errors.Is(err, notYet) || !strings.Contains(err.Error(), "what never comes") {
		t.Errorf("after the time limit: got %v, want what it waited for and %q", err, notYet)
	}

	began := time.Now()
	err = Until(ended, "what nobody wants", func(context.Context) error { return notYet })
	if !errors.Is(err, cancelled) || time.Since(began) > 10*polling.Duration {
		t.Errorf("after the end: got %v, want %q at once", err, cancelled)
	}
}
