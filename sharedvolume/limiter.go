package sharedvolume

import "time"

const (
	// A namespace begins at firstPace. At slowPace, one claim is made while another is bound.
	minSlots, initialSlots, maxSlots = 2, 4, 16
	// shortQueue and longQueue are how many claims of a namespace may wait at the binder while another is
	// being bound: with fewer it may run out of work, with more the claims of others wait too long.
	minQueued, maxQueued = 1, 2
	// paceMemory is over how many claims an average goes, more or less.
	averageOver = 8
)

// pace is how many claims of one namespace are made and bound at a time.
//
// The binder is kept busy, and its queue short, as TCP Vegas does with a network. Nobody sees that
// queue. But how much longer than at best it takes to have a claim bound, divided by the time from one
// that is bound to the next, is the number of claims that wait there. With few, more are made at a
// time; that matters where requests are slow, and making a claim takes longer than binding one.
type limiter struct {
	limit int
	// took is how long the binder took for the last claims on average, quickest the least that this has
	// ever been; gap is the time from one that was bound to the next.
	latency, minLatency, interval time.Duration
	last                time.Time // that one was bound
	count               int       // of those bound at this pace
}

// bound tells of a claim that was bound just now, took after the binder had it. waiting says whether more
// are to be made; if not, the time to the next says nothing.
func (p *limiter) observe(now time.Time, took time.Duration, waiting bool) {
	p.latency = average(p.latency, took)
	if p.minLatency == 0 || p.latency < p.minLatency {
		p.minLatency = p.latency
	}
	last := p.last
	if p.last = now; !waiting {
		p.last = time.Time{}
	}
	if last.IsZero() {
		return
	}
	p.interval = average(p.interval, now.Sub(last))
	if p.count++; p.count < p.limit {
		return // What the last change of the pace has brought is not to be seen yet.
	}
	p.count = 0
	switch queue := float64(p.latency-p.minLatency) / float64(p.interval); {
	case queue < minQueued:
		p.limit = min(p.limit+1, maxSlots)
	case queue > maxQueued:
		p.limit = max(p.limit-1, minSlots)
	}
}

// average returns the average of the last values, if it was old before the newest.
func average(old, newest time.Duration) time.Duration {
	if old == 0 {
		return newest
	}
	return old + (newest-old)/averageOver
}
