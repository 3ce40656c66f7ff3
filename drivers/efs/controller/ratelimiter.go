package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
)

const (
	// maxSlowdown limits the pause while the cloud refuses calls, as a multiple of the usual pause.
	maxSlowdown = 64
	// maxThrottled is how many calls in a row the cloud may refuse before a pass ends. With a usual pause of one second, that takes seven
	// minutes.
	maxThrottled = 12
)

// A RateLimiter spaces out the calls to the cloud. Clouds limit the calls of all clients of an account together, and do not say how many
// calls are left. So the pause doubles whenever a call is throttled, and otherwise slowly becomes shorter.
type RateLimiter struct {
	usual time.Duration // between two calls
	sleep func(context.Context, time.Duration) error

	turn      chan struct{} // holds a value while somebody waits
	pause     time.Duration
	throttled int // calls in a row that were refused
}

func newLimiter(usual time.Duration, sleep func(context.Context, time.Duration) error) *RateLimiter {
	return &RateLimiter{usual: usual, sleep: sleep, turn: make(chan struct{}, 1), pause: usual}
}

// NewRateLimiter returns a rate limiter with the usual pause between two calls.
func NewRateLimiter(usual time.Duration, clock clock.Clock) *RateLimiter {
	return newLimiter(usual, func(ctx context.Context, d time.Duration) error {
		select {
		case <-clock.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// Wait waits until the next call may be made. throttled says that the last one was refused.
func (l *RateLimiter) Wait(ctx context.Context, throttled bool) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if throttled {
		l.pause = min(2*l.pause, maxSlowdown*l.usual)
		if l.throttled++; l.throttled == maxThrottled {
			l.throttled = 0
			return fmt.Errorf("the cloud has refused %d calls in a row because there are too many. Other clients of the account share its limit: "+
				"look for one that makes many calls, or ask the cloud's support to raise the limit", maxThrottled)
		}
	} else {
		l.pause = max(l.pause-l.pause/8, l.usual)
		l.throttled = 0
	}
	return l.sleep(ctx, l.pause)
}
