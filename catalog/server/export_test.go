package server

import (
	"context"
	"time"
)

// ServeQuickly is Serve with short time limits.
func ServeQuickly(ctx context.Context, dir string, options Options) error {
	quick := defaults
	quick.request, quick.age = time.Second, 2*time.Second
	return serve(ctx, dir, options, quick)
}

// ServeWithin returns Serve with room for so many bytes of answers, and a function that reports how much of the room
// is taken.
func ServeWithin(total int64) (serveIt func(context.Context, string, Options) error, taken func() (made, sent int64)) {
	limited := defaults
	limited.flight = newFlight(total)
	look := func(r *room) int64 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.taken
	}
	return func(ctx context.Context, dir string, options Options) error { return serve(ctx, dir, options, limited) },
		func() (int64, int64) { return look(limited.flight.made), look(limited.flight.sent) }
}
