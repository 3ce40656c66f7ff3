package server

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"

	"github.com/berth-csi/berth/internal/connections"
)

// limits bound the load that clients can cause: anyone on the network may be a client. OLM's two operators keep one
// connection each, and kubelet makes one for each probe.
type limits struct {
	connections connections.Limits
	// streams is the number of requests of a connection that are served concurrently; further ones wait.
	streams uint32
	// requestBytes and headerBytes bound the size of requests, which hold only a few names. Errors repeat these names in headers, which
	// gRPC keeps, whether or not the client reads them.
	requestBytes int
	headerBytes  uint32
	// flight bounds the answers that are being made or that clients have not read yet.
	flight *flight
	// request is how long a request may take. OLM reads a whole large catalog in seconds. A connection with a request that
	// takes longer is closed.
	request time.Duration
	// age is how long a connection lives. gRPC clients then open another one, as they also do when a connection was idle for
	// that long. This also ends connections whose clients do not read their answers.
	age time.Duration
	// ping is how often an idle client is pinged, and pong how long its answer may take.
	ping, pong time.Duration
}

var defaults = limits{
	connections:  connections.Limits{PerHost: 16, Total: 128},
	streams:      16,
	requestBytes: 4 << 10,
	headerBytes:  16 << 10,
	flight:       newFlight(64 << 20),
	request:      2 * time.Minute,
	age:          30 * time.Minute,
	ping:         time.Minute,
	pong:         20 * time.Second,
}

// shareOfFlight divides the memory: answers being made may take 1/shareOfFlight of it, and unread ones as much.
const shareOfFlight = 12

// within returns the limits for a server with this memory in bytes; 0 means plenty.
func (l limits) within(memory int64) limits {
	if memory > 0 {
		l.flight = newFlight(min(l.flight.made.total, memory/shareOfFlight))
	}
	return l
}

// Buffers of a connection, in bytes. gRPC's own are four times as large, and there may be many connections.
const (
	readBuffer  = 8 << 10
	writeBuffer = 8 << 10
)

// window is how much of a request may arrive before it is read, in bytes: the least that gRPC accepts. gRPC would otherwise raise it to
// 16 MiB for each request of a client that sends fast.
const window = 64<<10 - 1

// serverOptions returns the options that apply the limits to a server with the connections of a listener. No option limits how
// often clients may ping, because gRPC does so by default.
func (l limits) serverOptions(listener *connections.Listener) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(shutdownTimeout),
		grpc.ReadBufferSize(readBuffer), grpc.WriteBufferSize(writeBuffer),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
		grpc.MaxConcurrentStreams(l.streams),
		grpc.MaxRecvMsgSize(l.requestBytes),
		grpc.MaxHeaderListSize(l.headerBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: l.age, MaxConnectionAgeGrace: l.request, Time: l.ping, Timeout: l.pong}),
		grpc.StatsHandler(stopwatch{l.request, listener, l.flight}),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.ChainUnaryInterceptor(countUnary),
		grpc.ChainStreamInterceptor(countStream),
	}
}

// stopwatch closes connections with a request that takes too long. gRPC itself waits forever for a client to finish sending
// a request, and to read the answer.
type stopwatch struct {
	limit    time.Duration
	listener *connections.Listener
	flight   *flight
}

type (
	remoteKey struct{}
	timerKey  struct{}
)

// TagConn stores the remote address of a connection and its account in the context.
func (s stopwatch) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	ctx = context.WithValue(ctx, remoteKey{}, info.RemoteAddr)
	return context.WithValue(ctx, accountKey{}, newAccount(s.flight, info.RemoteAddr))
}

// HandleConn closes the account of a connection when the connection ends.
func (s stopwatch) HandleConn(ctx context.Context, event stats.ConnStats) {
	if _, ends := event.(*stats.ConnEnd); ends {
		ctx.Value(accountKey{}).(*account).close()
	}
}

// TagRPC adds a place for a request's timer to the request's context.
func (s stopwatch) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, timerKey{}, new(atomic.Pointer[time.Timer]))
}

// HandleRPC starts the timer when a request begins and stops it when the request ends.
func (s stopwatch) HandleRPC(ctx context.Context, event stats.RPCStats) {
	timer := ctx.Value(timerKey{}).(*atomic.Pointer[time.Timer])
	switch event.(type) {
	case *stats.Begin:
		remote := ctx.Value(remoteKey{}).(net.Addr)
		timer.Store(time.AfterFunc(s.limit, func() { s.listener.Cut(remote) }))
	case *stats.End:
		if t := timer.Load(); t != nil {
			t.Stop()
		}
	}
}
