package objects

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// backoff gives up after some five seconds.
var backoff = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Steps: 9}

// RetryOnConflict calls write until it returns no conflict, and returns what it has returned. It gives up after some
// five seconds, and when ctx ends: then it returns the last conflict. client-go's retry.RetryOnConflict is not for
// writes with a deadline: if one does not succeed within it, that function returns nil, as if it had.
func RetryOnConflict(ctx context.Context, write func() error) error {
	backoff := backoff
	for {
		err := write()
		if !apierrors.IsConflict(err) || backoff.Steps <= 1 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(backoff.Step()):
		}
	}
}
