package server

import (
	"context"
	"time"
)

// ServeQuickly is Serve, but loses patience soon.
func ServeQuickly(ctx context.Context, dir string, options Options) error {
	quick := defaults
	quick.request, quick.age = time.Second, 2*time.Second
	return serve(ctx, dir, options, quick)
}
