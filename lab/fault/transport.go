package fault

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// answerLimit is the time limit for the API server to answer a write. The client does not wait for that, but the
// record does.
const answerLimit = time.Minute

// transport is the transport of one process of the client.
type transport struct {
	*life
	next http.RoundTripper
}

func (l *life) transport(next http.RoundTripper) http.RoundTripper { return &transport{l, next} }

// WrappedRoundTripper lets client-go find the underlying transport.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := bodyOf(request)
	if err != nil {
		return nil, err
	}
	point, isPoint, err := pointOf(request, body)
	switch {
	case err != nil:
		return nil, err
	case isPoint && point.IsWatch() && t.isLeftOut(point):
		return t.pass(request, func() {}) // a watch is not in flight
	case !isPoint || t.isLeftOut(point):
		return t.read(request)
	case point.IsWatch():
		return t.watch(request, point)
	default:
		return t.write(request, body, point)
	}
}

// bodyOf reads the body of a request, which is sent even if the client cancels it.
func bodyOf(request *http.Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	defer request.Body.Close()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: reading the body: %w", request.Method, request.URL, err)
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// read sends a request that is not a point. It is canceled when the client ends.
func (t *transport) read(request *http.Request) (*http.Response, error) {
	if t.ctx.Err() != nil {
		return nil, errRefused
	}
	t.begin()
	return t.pass(request, t.finish)
}

// pass sends a request that is canceled when the client ends. It calls done once, when the response body is closed.
func (t *transport) pass(request *http.Request, done func()) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	detach := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	end := sync.OnceFunc(func() {
		detach()
		cancel(nil)
		done()
	})
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	response.Body = &notifyingBody{response.Body, end}
	return response, nil
}

// notifyingBody calls closed when it is closed.
type notifyingBody struct {
	io.ReadCloser
	closed func()
}

func (b *notifyingBody) Close() error {
	defer b.closed()
	return b.ReadCloser.Close()
}

func (t *transport) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy++
}

func (t *transport) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	if t.number == t.lives { // the request is not one of a killed client
		t.last = time.Now()
	}
}

// write sends a write, or injects its fault.
func (t *transport) write(request *http.Request, body []byte, point Point) (*http.Response, error) {
	write := t.admit(point, body)
	if write == nil {
		return nil, errRefused
	}
	defer t.finish()
	switch write.Fault {
	case KilledBefore:
		t.end(ErrKilled)
		return nil, errReset
	case KilledAfter:
		<-t.send(request, body, write)
		t.end(ErrKilled)
		return nil, errReset
	case ResponseDropped:
		<-t.send(request, body, write)
		return nil, errReset
	case Hang:
		return t.await(request, nil)
	case Conflict, TooManyRequests, ServerError:
		return answer(request, answers[write.Fault](point))
	}
	return t.await(request, t.send(request, body, write))
}

// admit records a write with the fault to inject. It returns nil if the client is dead.
func (t *transport) admit(point Point, body []byte) *Write {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return nil
	}
	write := &Write{Life: t.number}
	write.Point, write.Fault = t.arrive(point, body)
	t.came = t.came || write.Fault != ""
	t.writes = append(t.writes, write)
	t.busy++
	if write.Fault.reachesServer() {
		t.sent.Add(1) // send calls Done
	}
	return write
}

// reply is the API server's response, or an error.
type reply struct {
	response *http.Response
	err      error
}

// send sends a write and records the response, whether or not the client still waits for it.
func (t *transport) send(request *http.Request, body []byte, write *Write) <-chan reply {
	replies := make(chan reply, 1)
	go func() {
		defer t.sent.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(request.Context()), answerLimit)
		defer cancel()
		request := request.Clone(ctx)
		request.Body = io.NopCloser(bytes.NewReader(body))
		received, err := t.receive(request)
		if err == nil {
			t.mu.Lock()
			write.Code = received.StatusCode
			t.mu.Unlock()
		}
		replies <- reply{received, err}
	}()
	return replies
}

// receive returns the complete response to a request.
func (t *transport) receive(request *http.Request) (*http.Response, error) {
	received, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer received.Body.Close()
	body, err := io.ReadAll(received.Body)
	if err != nil {
		return nil, err
	}
	return response(request, received.StatusCode, received.Header, body), nil
}

// await waits for a response for as long as the client does.
func (t *transport) await(request *http.Request, replies <-chan reply) (*http.Response, error) {
	select {
	case r := <-replies:
		return r.response, r.err
	case <-request.Context().Done():
		return nil, context.Cause(request.Context())
	case <-t.ctx.Done():
		return nil, errReset
	}
}

// A RoundTripperFunc is a function that is a transport, for tests that see or change the requests of a client.
type RoundTripperFunc func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f RoundTripperFunc) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
