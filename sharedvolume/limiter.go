package sharedvolume

import "time"

const (
	// A namespace starts with initialSlots. With minSlots, one claim is created while another is bound.
	minSlots, initialSlots, maxSlots = 2, 4, 16
	// minQueued and maxQueued are how many claims of a namespace may wait for the binder while it binds another: with fewer claims the
	// binder may run idle, and with more the claims of other namespaces wait too long.
	minQueued, maxQueued = 1, 2
	// averageOver is roughly how many of the last claims an average covers.
	averageOver = 8
)

// limiter is a concurrency limiter: it finds out how many claims of one namespace to have in flight.
//
// It keeps the binder busy and the binder's queue short, like the congestion control of TCP Vegas. The queue cannot be observed. But the
// time that the binder needs for a claim beyond the minimum, divided by the interval between two claims that it has bound, is the number
// of claims in the queue. If there are few, the limit grows. That matters where requests are slow, and creating a claim takes longer than
// binding it.
type limiter struct {
	limit int
	// latency is the average time that the binder took for each of the last claims, minLatency the lowest latency so far, and interval
	// the average time between two bound claims.
	latency, minLatency, interval time.Duration
	last                          time.Time // when the last claim was bound
	count                         int       // of claims bound since the limit was last considered
}

// observe records that a claim is bound. latency is the time since the binder could bind it. waiting says whether more claims of the
// namespace wait for a slot; if not, the interval to the next bound claim means nothing.
func (l *limiter) observe(now time.Time, latency time.Duration, waiting bool) {
	l.latency = average(l.latency, latency)
	if l.minLatency == 0 || l.latency < l.minLatency {
		l.minLatency = l.latency
	}
	last := l.last
	if l.last = now; !waiting {
		l.last = time.Time{}
	}
	if last.IsZero() {
		return
	}
	l.interval = average(l.interval, now.Sub(last))
	if l.count++; l.count < l.limit {
		return // The effect of the last change of the limit does not show yet.
	}
	l.count = 0
	switch queued := float64(l.latency-l.minLatency) / float64(l.interval); {
	case queued < minQueued:
		l.limit = min(l.limit+1, maxSlots)
	case queued > maxQueued:
		l.limit = max(l.limit-1, minSlots)
	}
}

// average returns a moving average, given its last value and the newest sample.
func average(last, newest time.Duration) time.Duration {
	if last == 0 {
		return newest
	}
	return last + (newest-last)/averageOver
}
