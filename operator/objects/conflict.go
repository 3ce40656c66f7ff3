package objects

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// backoff gives up after some five seconds.
var backoff = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Steps: 9}

// RetryOnConflict calls write until it returns no conflict, and returns its result. After some five seconds, or when
// ctx ends, it gives up and returns the last conflict. client-go's retry.RetryOnConflict does not fit writes with a
// deadline: if the deadline passes first, it returns nil, as if the write had succeeded.
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
