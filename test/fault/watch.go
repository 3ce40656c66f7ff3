package fault

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// staleLimit bounds how long events are held back from a client that does not settle.
const staleLimit = 30 * time.Second

// watch opens a watch and, where its events matter, follows them.
func (t *transport) watch(request *http.Request, point Point) (*http.Response, error) {
	one, disturbance, expired := t.open(point, isResumed(request))
	switch {
	case expired:
		return answer(request, answers[EventDropped](point))
	case one == nil:
		return nil, errRefused
	}
	closed := make(chan struct{})
	received, err := t.pass(request, func() { close(closed) })
	t.finish()
	if err != nil || received.StatusCode != http.StatusOK || !t.matters(disturbance) {
		return received, err
	}
	source, err := newFrames(received.Header.Get("Content-Type"), received.Body)
	if err != nil {
		received.Body.Close()
		return nil, err
	}
	reader, writer := io.Pipe()
	relay := &relay{transport: t, stream: one, fault: disturbance, listing: wantsList(request), closed: closed}
	go func() { writer.CloseWithError(relay.run(source, writer)) }()
	received.Body = &pipedBody{reader, received.Body}
	return received, nil
}

// open records a watch and returns it with the fault that is to happen to it; nil if the client is dead.
// It tells whether the watch is one that must not be resumed.
func (t *transport) open(point Point, resumed bool) (opened *stream, disturbance Fault, expired bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return nil, "", false
	}
	if i := slices.Index(t.expired, point); i >= 0 && resumed {
		t.expired = slices.Delete(t.expired, i, i+1)
		return nil, "", true
	}
	opened = &stream{}
	opened.point, disturbance = t.come(point, nil)
	t.watches = append(t.watches, opened)
	t.busy++
	return opened, disturbance, false
}

// matters tells whether anybody wants to know what a watch brings: looking at each event costs time.
func (i *Injector) matters(disturbance Fault) bool {
	return disturbance != "" || i.fault == ""
}

// wantsList tells whether a watch begins with the objects that there are.
func wantsList(request *http.Request) bool {
	return request.URL.Query().Get("sendInitialEvents") == "true"
}

// isResumed tells whether a watch goes on from what the client has seen.
func isResumed(request *http.Request) bool {
	return request.URL.Query().Get("resourceVersion") != "" && !wantsList(request)
}

// pipedBody is what the client reads of a watch. Closing it ends the watch.
type pipedBody struct {
	*io.PipeReader
	upstream io.Closer
}

func (b *pipedBody) Close() error {
	b.PipeReader.Close()
	return b.upstream.Close()
}

// relay carries the events of a watch to the client.
type relay struct {
	*transport
	stream  *stream
	fault   Fault
	listing bool            // the initial list is not over
	closed  <-chan struct{} // when the client has enough
	first   sync.Once
}

// run returns io.EOF when the watch has ended as a watch does.
func (r *relay) run(source *frames, sink io.Writer) error {
	sink = source.writer(sink)
	for {
		frame, err := source.next()
		if err != nil {
			return err
		}
		event, err := source.event(frame)
		if err != nil {
			return err
		}
		switch {
		case event.endsList():
			r.listing = false
		case event.tells() && !r.listing:
			dropped := false
			r.first.Do(func() { dropped = r.disturb() })
			if dropped {
				return io.EOF
			}
		}
		if _, err := sink.Write(frame); err != nil {
			return err
		}
	}
}

// disturb does to the first event what the fault says, and tells whether the event is lost.
func (r *relay) disturb() (dropped bool) {
	r.mu.Lock()
	r.stream.told = true
	r.came = r.came || r.fault != ""
	if r.fault == EventDropped {
		point := r.stream.point
		point.Occurrence = 0
		r.expired = append(r.expired, point)
	}
	r.mu.Unlock()
	if r.fault == Stale {
		r.holdBack()
	}
	return r.fault == EventDropped
}

// holdBack returns when the events are to be delivered, or nobody waits for them any more. Meanwhile they
// wait in the connection.
func (r *relay) holdBack() {
	limit := time.NewTimer(staleLimit)
	defer limit.Stop()
	select {
	case <-r.deliver:
	case <-limit.C:
	case <-r.closed:
	}
}
