package server

import (
	"context"
	"time"
)

// ServeQuickly is Serve with little patience.
func ServeQuickly(ctx context.Context, dir string, options Options) error {
	quick := defaults
	quick.request, quick.age = time.Second, 2*time.Second
	return serve(ctx, dir, options, quick)
}
