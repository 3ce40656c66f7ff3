package server

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/berth-csi/berth/catalog/fbc/document"
)

// flight bounds the bytes of answers that are being made or that clients have not read yet. A request waits for room. Each host
// has a share, so that one host cannot keep the others waiting.
type flight struct {
	made, sent *room
}

// room is a number of bytes that requests share.
type room struct {
	total, perHost int64

	mu     sync.Mutex
	taken  int64
	byHost map[string]int64
	freed  chan struct{} // closed when there is more room
}

// newFlight returns a flight with total bytes for answers that are being made, and as many for unread answers. A host may take a quarter
// of each.
func newFlight(total int64) *flight {
	of := func() *room {
		return &room{total: total, perHost: total / 4, byHost: map[string]int64{}, freed: make(chan struct{})}
	}
	return &flight{of(), of()}
}

// take waits until a host may take n bytes, or until the context ends. An answer that is larger than the host's share takes all
// of the share.
func (r *room) take(ctx context.Context, host string, n int64) (release func(), err error) {
	n = min(n, r.perHost)
	for {
		r.mu.Lock()
		if r.taken+n <= r.total && r.byHost[host]+n <= r.perHost {
			r.add(host, n)
			r.mu.Unlock()
			return sync.OnceFunc(func() { r.give(host, n) }), nil
		}
		freed := r.freed
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-freed:
		}
	}
}

func (r *room) give(host string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(host, -n)
	close(r.freed)
	r.freed = make(chan struct{})
}

func (r *room) add(host string, n int64) {
	r.taken += n
	if r.byHost[host] += n; r.byHost[host] == 0 {
		delete(r.byHost, host)
	}
}

// account holds the room that a connection has taken. When a connection ends, gRPC does not always report its messages as sent.
type account struct {
	*flight
	host string

	mu     sync.Mutex
	closed bool
	next   int
	open   map[int]func()
}

type accountKey struct{}

func newAccount(f *flight, remote net.Addr) *account {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		host = remote.String()
	}
	return &account{flight: f, host: host, open: map[int]func(){}}
}

// keep remembers how to release the room of a message, and returns a function that releases it once.
func (a *account) keep(release func()) func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		release()
		return func() {}
	}
	id := a.next
	a.next++
	a.open[id] = release
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.open, id)
		release()
	}
}

// close releases all room that a connection has taken.
func (a *account) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, release := range a.open {
		release()
	}
	clear(a.open)
}

// roomForAnswer waits for room to make an answer from a document: for its text, its decoded form and the message. The caller has to
// release the room.
func roomForAnswer(ctx context.Context, of document.Span) (release func(), err error) {
	a, is := ctx.Value(accountKey{}).(*account)
	if !is {
		return func() {}, nil // not asked for by a client
	}
	return a.made.take(ctx, a.host, 4*int64(of.Length))
}

// small is the size of messages that are not counted, in bytes, such as the answers to probes.
const small = 1 << 10

// counted is a message that takes room until it is written to the connection.
type counted struct {
	message any
	release func()
}

// count waits for room for a message.
func count(ctx context.Context, message any) (any, error) {
	m, is := message.(proto.Message)
	a, counts := ctx.Value(accountKey{}).(*account)
	if !is || !counts {
		return message, nil
	}
	size := int64(proto.Size(m))
	if size < small {
		return message, nil
	}
	release, err := a.sent.take(ctx, a.host, size)
	if err != nil {
		return nil, err
	}
	return &counted{message, a.keep(release)}, nil
}

// countUnary counts the answer to a request.
func countUnary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	if err != nil {
		return nil, err
	}
	return count(ctx, answer)
}

// countStream counts the messages of a stream.
func countStream(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return handle(service, countingStream{stream})
}

type countingStream struct{ grpc.ServerStream }

func (s countingStream) SendMsg(message any) error {
	message, err := count(s.Context(), message)
	if err != nil {
		return err
	}
	return s.ServerStream.SendMsg(message)
}

// codec is gRPC's codec, which also releases the room of messages once they are written.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

func (c codec) Marshal(message any) (mem.BufferSlice, error) {
	of, is := message.(*counted)
	if !is {
		return c.CodecV2.Marshal(message)
	}
	text, err := c.CodecV2.Marshal(of.message)
	if err != nil {
		of.release()
		return nil, err
	}
	defer text.Free()
	flat := text.Materialize()
	return mem.BufferSlice{mem.NewBuffer(&flat, releasing(of.release))}, nil
}

// releasing is a pool for one buffer: it calls a function when gRPC gives the buffer back.
type releasing func()

func (r releasing) Get(length int) *[]byte {
	made := make([]byte, length)
	return &made
}

func (r releasing) Put(*[]byte) { r() }
