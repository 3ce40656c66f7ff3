package serving

import (
	"context"
	"time"

	"github.com/berth-csi/berth/connections"
)

// RunQuickly is Run, but loses patience soon.
func RunQuickly(ctx context.Context, options Options) error {
	return run(ctx, options, limits{
		connections: connections.Limits{PerHost: 8, Total: 24},
		header:      time.Second, request: 2 * time.Second, answer: 2 * time.Second, idle: time.Second,
		headerBytes: defaults.headerBytes,
		review:      defaults.review, turn: 100 * time.Millisecond, reviewsPerSecond: defaults.reviewsPerSecond, reviewsAtOnce: 10,
	})
}
