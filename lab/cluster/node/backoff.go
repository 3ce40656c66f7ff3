package node

import "time"

// backoff grows with each restart of a container that does not run for long.
type backoff struct{ delay time.Duration }

// The first restart is immediate, the next waits backoffFirst, later ones up to backoffMost. A run of
// backoffReset makes the next restart immediate again.
const (
	backoffFirst = time.Second
	backoffMost  = 10 * time.Second
	backoffReset = 2 * backoffMost
)

// next returns the delay before the next restart, after a run of this length.
func (b *backoff) next(ran time.Duration) time.Duration {
	if ran >= backoffReset {
		b.delay = 0
	}
	delay := b.delay
	b.delay = min(max(2*delay, backoffFirst), backoffMost)
	return delay
}
