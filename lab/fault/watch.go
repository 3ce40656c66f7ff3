package fault

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// staleLimit is the maximum time for which Stale delays events, in case the client does not settle without them.
const staleLimit = 30 * time.Second

// watch opens a watch and, if its events matter, relays them.
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

// open records a watch, and returns it with the fault to inject. opened is nil if the client is dead, or if expired is
// true: then the watch must not be resumed.
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
	opened.point, disturbance = t.arrive(point, nil)
	t.watches = append(t.watches, opened)
	t.busy++
	return opened, disturbance, false
}

// matters reports whether the events of a watch must be decoded: to inject a fault, or to record which watches have
// events. Decoding takes time, so all other watches are passed through.
func (i *Injector) matters(disturbance Fault) bool {
	return disturbance != "" || i.fault == ""
}

// wantsList reports whether a watch begins with the existing objects.
func wantsList(request *http.Request) bool {
	return request.URL.Query().Get("sendInitialEvents") == "true"
}

// isResumed reports whether a watch continues from a resource version.
func isResumed(request *http.Request) bool {
	return request.URL.Query().Get("resourceVersion") != "" && !wantsList(request)
}

// pipedBody is the response body that the client reads. Closing it ends the watch.
type pipedBody struct {
	*io.PipeReader
	upstream io.Closer
}

func (b *pipedBody) Close() error {
	b.PipeReader.Close()
	return b.upstream.Close()
}

// relay relays the events of a watch to the client.
type relay struct {
	*transport
	stream  *stream
	fault   Fault
	listing bool            // the initial list is incomplete
	closed  <-chan struct{} // closed when the client closes the watch
	first   sync.Once
}

// run relays events until the watch ends. It returns io.EOF if the server has ended the watch, or if EventDropped ends
// it.
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
		case event.isChange() && !r.listing:
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

// disturb injects the fault into the first event, and reports whether the event is dropped.
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

// holdBack waits until the test calls Deliver, the client closes the watch, or staleLimit has passed. Until then, the
// events wait in the connection.
func (r *relay) holdBack() {
	limit := time.NewTimer(staleLimit)
	defer limit.Stop()
	select {
	case <-r.deliver:
	case <-limit.C:
	case <-r.closed:
	}
}
