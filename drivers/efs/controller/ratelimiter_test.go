package controller

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRateLimiter(t *testing.T) {
	var slept []time.Duration
	l := newLimiter(time.Second, func(_ context.Context, d time.Duration) error {
		slept = append(slept, d)
		return nil
	})
	wait := func(times int, throttled bool) (err error) {
		for range times {
			err = errors.Join(err, l.Wait(t.Context(), throttled))
		}
		return err
	}
	take := func() []time.Duration {
		defer func() { slept = nil }()
		return slept
	}
	if err := wait(3, false); err != nil || !slices.Equal(take(), []time.Duration{time.Second, time.Second, time.Second}) {
		t.Errorf("while all is well, the pauses are %v, error %v; want a second each", slept, err)
	}
	assert.NoError(t, wait(7, true))
	if got, want := take(), []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second, 64 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("while calls are refused, the pauses are %v, want %v", got, want)
	}
	if err := wait(1, false); err != nil || !slices.Equal(take(), []time.Duration{56 * time.Second}) {
		t.Errorf("after that, the pause is %v, error %v; want 56s", slept, err)
	}
	if err := wait(40, false); err != nil || l.pause != time.Second {
		t.Errorf("later, the pause is %v, error %v; want a second", l.pause, err)
	}
	if err := wait(maxThrottled-1, true); err != nil {
		t.Errorf("after %d refused calls: %v", maxThrottled-1, err)
	}
	assert.Errorf(t, wait(1, true), "after %d refused calls in a row, want an error", maxThrottled)
	assert.NoError(t, wait(1, true), "the next pass")
}
