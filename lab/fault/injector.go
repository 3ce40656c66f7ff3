// Package fault injects faults into the requests of one client to the real API server.
//
// A test first runs the client without faults, through an Injector that records the points: each write, and each
// watch with an event. Then it runs the client again for each point and each fault that is possible there, always
// from the same initial state, and compares the result with the undisturbed run: the final objects, how often each
// was created and deleted (Count), and that the settled client writes nothing.
package fault

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// ErrKilled is the cause of the end of a killed client's context.
var ErrKilled = errors.New("killed by an injected fault")

// An Injector is between a client and the API server during one run.
type Injector struct {
	leftOut []Target
	at      Point // the point of the fault; the zero Point for none
	nth     int   // the number of the write with the fault; 0 if the field at says where the fault is
	each    bool  // kills the client at each new write
	fault   Fault
	deliver chan struct{} // closed by Deliver
	once    sync.Once

	mu      sync.Mutex
	came    bool               // the client reached the point
	seen    map[Point]int      // occurrences, by points without one
	tried   map[Point]bool     // points without occurrence: killed before the write, not yet after it
	made    map[Point][][]byte // bodies of the requests after which the client was killed
	writes  []*Write
	watches []*stream
	expired []Point        // watches that must not be resumed, without occurrence
	lives   int            // the client's processes so far
	busy    int            // requests in flight, except watches
	sent    sync.WaitGroup // writes without a response from the API server
	last    time.Time      // of the end of a request
}

// stream is a watch of the client.
type stream struct {
	point Point
	told  bool // had events after its initial list
}

// A Write is a request of the client that changes something.
type Write struct {
	Point Point
	// Life is the number of the client's process, from 1.
	Life int
	// Code is the HTTP status of the API server's response, whether or not the client got it. It is 0 if the API
	// server has not got the request, or not responded yet.
	Code int
	// Fault is the injected fault, if any.
	Fault Fault
}

// Created reports whether the write created an object.
func (w Write) Created() bool { return w.Code == http.StatusCreated }

// Deleted reports whether the API server accepted the deletion of an object.
func (w Write) Deleted() bool {
	return w.Point.Verb == "delete" && w.Code >= http.StatusOK && w.Code < http.StatusMultipleChoices
}

// Record returns an Injector without a fault. It does not record requests for leftOut.
func Record(leftOut ...Target) *Injector {
	return &Injector{leftOut: leftOut, deliver: make(chan struct{}), seen: map[Point]int{}, tried: map[Point]bool{}, made: map[Point][][]byte{}, last: time.Now()}
}

// Inject returns an Injector with a fault at a point, which happens once. It also records, so leftOut must be the same
// as for the Injector that recorded the point.
func Inject(at Point, f Fault, leftOut ...Target) *Injector {
	i := Record(leftOut...)
	i.at, i.fault = at, f
	return i
}

// InjectNth is like Inject, for a client whose writes are sequential: the fault is at the nth write, counted from 1,
// regardless of its name.
func InjectNth(n int, f Fault, leftOut ...Target) *Injector {
	i := Record(leftOut...)
	i.nth, i.fault = n, f
	return i
}

// KillAtEach returns an Injector that kills a client at each of its writes: first before the write, then, when the next process repeats
// it, after the write. It identifies a repeated write by its point without the occurrence, as a new process may write other times and
// versions. It does not disturb a write with exactly the body of an earlier one: a client may apply all its objects when it starts. Nor
// does it disturb further events about an object: each is new, and a process that is killed before it has recorded that it sent an event
// sends the event again.
func KillAtEach(leftOut ...Target) *Injector {
	i := Record(leftOut...)
	i.each = true
	return i
}

// Run runs a client until it returns or ctx ends, and returns its error. The client must use the given context and
// configuration for all of its connections. A fault that kills it cancels the context with the cause ErrKilled and
// refuses all further requests. Once the client has returned, with any error, Run starts it again, as a new process
// without memory.
//
// The API server still processes requests that the killed client has sent. The next process starts after that, as a
// real process takes longer to start than a request takes.
func (i *Injector) Run(ctx context.Context, cfg *rest.Config, client func(context.Context, *rest.Config) error) error {
	for {
		one := i.startLife(ctx)
		wrapped := rest.CopyConfig(cfg)
		wrapped.Wrap(one.transport)
		err := client(one.ctx, wrapped)
		killed := context.Cause(one.ctx) == ErrKilled
		one.end(context.Canceled)
		i.sent.Wait()
		if !killed || ctx.Err() != nil {
			return err
		}
	}
}

// life is one process of the client.
type life struct {
	*Injector
	number int
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// end stops the client as far as it still runs.
func (l *life) end(cause error) {
	l.mu.Lock() // a write is admitted before this or not at all
	defer l.mu.Unlock()
	l.cancel(cause)
}

func (i *Injector) startLife(ctx context.Context) *life {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lives++
	i.last = time.Time{}
	one := &life{Injector: i, number: i.lives}
	one.ctx, one.cancel = context.WithCancelCause(ctx)
	return one
}

// Points returns the client's writes so far, in the order it sent them, followed by its watches that had events after
// their initial lists.
func (i *Injector) Points() []Point {
	i.mu.Lock()
	defer i.mu.Unlock()
	var points []Point
	for _, write := range i.writes {
		points = append(points, write.Point)
	}
	for _, w := range i.watches {
		if w.told {
			points = append(points, w.point)
		}
	}
	return points
}

// Writes returns all writes so far, in the order the client sent them.
func (i *Injector) Writes() []Write {
	i.mu.Lock()
	defer i.mu.Unlock()
	writes := make([]Write, len(i.writes))
	for n, write := range i.writes {
		writes[n] = *write
	}
	return writes
}

// Came reports whether the client reached the point of the fault.
func (i *Injector) Came() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.came
}

// Deliver ends a Stale fault: the client has settled without the events. It may be called at any time.
func (i *Injector) Deliver() {
	i.once.Do(func() { close(i.deliver) })
}

// Idle returns for how long the client has had no request in flight, except watches. A process that has not made a request
// yet is about to, so it is not idle.
func (i *Injector) Idle() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.busy > 0 || i.last.IsZero() {
		return 0
	}
	return time.Since(i.last)
}

// Count says how often an object was created and deleted.
type Count struct{ Created, Deleted int }

// Counts returns how often the client created and deleted each object. Attempts that the API server rejected, because
// the object exists or is gone, do not count. The keys are points without verb and occurrence.
func (i *Injector) Counts() map[Point]Count {
	counts := map[Point]Count{}
	for _, write := range i.Writes() {
		object := Point{Resource: write.Point.Resource, Namespace: write.Point.Namespace, Name: write.Point.Name}
		count := counts[object]
		if write.Created() {
			count.Created++
		}
		if write.Deleted() {
			count.Deleted++
		}
		if count != (Count{}) {
			counts[object] = count
		}
	}
	return counts
}

// arrive sets the occurrence of a point and returns the fault that happens there.
func (i *Injector) arrive(p Point, body []byte) (Point, Fault) {
	i.seen[p]++
	at := p
	at.Occurrence = i.seen[p]
	here := at == i.at
	switch {
	case i.each && !p.IsWatch():
		return at, i.kill(p, body)
	case i.nth > 0:
		here = !p.IsWatch() && i.nth == len(i.writes)+1
	}
	if !here {
		return at, ""
	}
	return at, i.fault
}

// kill returns how KillAtEach kills the client at this write.
func (i *Injector) kill(p Point, body []byte) Fault {
	if slices.ContainsFunc(i.made[p], func(made []byte) bool { return p.Resource == "events" || bytes.Equal(made, body) }) {
		return ""
	}
	i.tried[p] = !i.tried[p]
	if i.tried[p] {
		return KilledBefore
	}
	i.made[p] = append(i.made[p], body)
	return KilledAfter
}

func (i *Injector) isLeftOut(p Point) bool {
	return slices.ContainsFunc(i.leftOut, func(t Target) bool { return t.matches(p) })
}
