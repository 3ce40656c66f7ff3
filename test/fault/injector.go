// Package fault disturbs the conversation of one client with the real API server, at one point of it.
//
// A test lets the client run undisturbed first, with an Injector between, which records the points: each
// write, and each watch that had something to tell. Then the test runs the client again for each point
// and each fault of it, always from the same beginning, and compares what comes of it with the
// undisturbed run: the objects in the end, how often each was created and deleted (Count), and that
// nothing is written any more when all has settled.
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

// ErrKilled is the cause of the end of the context of a client that a fault has killed.
var ErrKilled = errors.New("killed by an injected fault")

// An Injector stands between one client and the API server in one run of it.
type Injector struct {
	leftOut []Target
	at      Point // where the fault is; the zero Point: nowhere
	nth     int   // of the writes, which is where the fault is; 0: at
	each    bool  // write that is new is where the client is killed
	fault   Fault
	deliver chan struct{} // closed by Deliver
	once    sync.Once

	mu      sync.Mutex
	came    bool               // the client came to the point
	seen    map[Point]int      // occurrences, by points without one
	tried   map[Point]bool     // points without occurrence before which the client was killed, and not yet after
	made    map[Point][][]byte // the bodies of the requests after which the client was killed
	writes  []*Write
	watches []*stream
	expired []Point        // watches that are not to be resumed, without occurrences
	lives   int            // of the client so far
	busy    int            // requests under way, watches not counted
	sent    sync.WaitGroup // writes that the API server has not answered
	last    time.Time      // of the end of a request
}

// stream is a watch that the client opened.
type stream struct {
	point Point
	told  bool // something besides its initial list
}

// A Write is a request of the client that was to change something.
type Write struct {
	Point Point
	// Life counts the client's processes, from 1.
	Life int
	// Code is the HTTP status of the API server's answer, whether or not the client got it; 0 if the API
	// server never got the request, or has not answered yet.
	Code int
	// Fault is the fault that was injected here, if any.
	Fault Fault
}

// Created tells whether the write made an object.
func (w Write) Created() bool { return w.Code == http.StatusCreated }

// Deleted tells whether the API server accepted the deletion of an object.
func (w Write) Deleted() bool {
	return w.Point.Verb == "delete" && w.Code >= http.StatusOK && w.Code < http.StatusMultipleChoices
}

// Record returns an Injector that disturbs nothing. What leftOut names is not recorded.
func Record(leftOut ...Target) *Injector {
	return &Injector{leftOut: leftOut, deliver: make(chan struct{}), seen: map[Point]int{}, tried: map[Point]bool{}, made: map[Point][][]byte{}, last: time.Now()}
}

// Inject returns an Injector with a fault at a point, which happens once. It records as well, and so
// must leave out the same as the Injector that the point comes from.
func Inject(at Point, f Fault, leftOut ...Target) *Injector {
	i := Record(leftOut...)
	i.at, i.fault = at, f
	return i
}

// InjectNth is Inject for a client that makes one write after the other: the fault is at the nth of them,
// whatever its name, counted from 1.
func InjectNth(n int, f Fault, leftOut ...Target) *Injector {
	i := Record(leftOut...)
	i.nth, i.fault = n, f
	return i
}

// KillAtEach returns an Injector that kills a client at each of its writes: first before it, and, when the next
// process comes to it again, after it. That it comes again is known by the point without its occurrence, as a
// new process may write other times and versions. A write that was done before, to the letter, is nothing new,
// and disturbed no more: a client may apply all that it looks after whenever it begins. Nor are further events
// about an object. All are new, and a process that dies at one before it has noted what it did tells it again.
func KillAtEach(leftOut ...Target) *Injector {
	i := Record(leftOut...)
	i.each = true
	return i
}

// Run runs a client until it returns or ctx ends, and returns its error. The client has to use the
// context and the configuration that it is given, for all of its connections. When a fault kills it, the
// context ends with the cause ErrKilled and every further request is refused; once the client has
// returned, whatever its error, Run calls it again, as a new process that remembers nothing.
//
// What the dead client had sent by then the API server still does, as nothing can call it back. The
// next one begins after that, because to start a process takes longer than to answer a request.
func (i *Injector) Run(ctx context.Context, cfg *rest.Config, client func(context.Context, *rest.Config) error) error {
	for {
		one := i.beget(ctx)
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

// end ends the client, or what it has left running.
func (l *life) end(cause error) {
	l.mu.Lock() // a write is admitted either before or not at all
	defer l.mu.Unlock()
	l.cancel(cause)
}

func (i *Injector) beget(ctx context.Context) *life {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lives++
	one := &life{Injector: i, number: i.lives}
	one.ctx, one.cancel = context.WithCancelCause(ctx)
	return one
}

// Points returns what the client did so far: its writes, in the order in which it sent them, and after
// them the watches that told something besides their initial lists.
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

// Writes returns all writes so far, in the order in which the client sent them.
func (i *Injector) Writes() []Write {
	i.mu.Lock()
	defer i.mu.Unlock()
	writes := make([]Write, len(i.writes))
	for n, write := range i.writes {
		writes[n] = *write
	}
	return writes
}

// Came tells whether the client came to the point where the fault is.
func (i *Injector) Came() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.came
}

// Deliver ends a Stale watch: the client has settled without the events. It may be called at any time.
func (i *Injector) Deliver() {
	i.once.Do(func() { close(i.deliver) })
}

// Idle returns for how long the client has asked the API server for nothing and waited for no answer,
// but for the events of its watches.
func (i *Injector) Idle() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.busy > 0 {
		return 0
	}
	return time.Since(i.last)
}

// Count is how often one object was created and deleted.
type Count struct{ Created, Deleted int }

// Counts returns, for each object that the client made or removed, how often it did. An attempt that
// the API server refused, because the object is there already or gone, is none. The objects are given
// as points of neither verb nor occurrence.
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

// come gives a point its occurrence, and tells which fault is to happen there.
func (i *Injector) come(p Point, body []byte) (Point, Fault) {
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

// kill tells how a client that is killed at each write is to be killed at this one.
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
