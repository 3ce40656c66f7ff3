package metrics

import (
	"context"
	"time"

	"github.com/berth-csi/berth/internal/connections"
)

// RunWithShortTimeouts is Run with limits that tests reach soon.
func RunWithShortTimeouts(ctx context.Context, options ServeOptions) error {
	return run(ctx, options, limits{
		connections: connections.Limits{PerHost: 8, Total: 24},
		header:      time.Second, request: 2 * time.Second, response: 2 * time.Second, idle: time.Second,
		headerBytes: defaults.headerBytes,
		review:      defaults.review, reviewWait: 100 * time.Millisecond, reviewsPerSecond: defaults.reviewsPerSecond, reviewBurst: 10,
	})
}
