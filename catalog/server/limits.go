package server

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"

	"github.com/berth-csi/berth/connections"
)

// limits are what anybody who reaches the server over the network can make of it. OLM's two operators keep
// one connection each, and kubelet makes one for each probe.
type limits struct {
	connections connections.Limits
	// streams are the requests of one connection that are answered at the same time; further ones wait.
	streams uint32
	// requestBytes and headerBytes are how long requests may be. They hold a few names.
	requestBytes int
	headerBytes  uint32
	// request is how long a request may take: OLM takes all of a large catalog in seconds. A connection with a
	// request that takes longer is closed.
	request time.Duration
	// age is how long a connection lives. gRPC's clients make another one then, as they do themselves when
	// they have not used one for as long. It also ends those whose clients do not take what was answered.
	age time.Duration
	// ping is how often it is found out whether a silent client is there, and pong how long that may take.
	ping, pong time.Duration
}

var defaults = limits{
	connections:  connections.Limits{PerHost: 16, Total: 128},
	streams:      16,
	requestBytes: 64 << 10,
	headerBytes:  16 << 10,
	request:      2 * time.Minute,
	age:          30 * time.Minute,
	ping:         time.Minute,
	pong:         20 * time.Second,
}

// serverOptions hold a server to the limits, whose connections come from a listener. That clients may not
// ping often is gRPC's own default.
func (l limits) serverOptions(listener *connections.Listener) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(patience),
		grpc.MaxConcurrentStreams(l.streams),
		grpc.MaxRecvMsgSize(l.requestBytes),
		grpc.MaxHeaderListSize(l.headerBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: l.age, MaxConnectionAgeGrace: l.request, Time: l.ping, Timeout: l.pong}),
		grpc.StatsHandler(stopwatch{l.request, listener}),
	}
}

// stopwatch closes connections with a request that takes too long. gRPC waits for ever for a client to
// send a request that it has begun, and to take the answer.
type stopwatch struct {
	limit    time.Duration
	listener *connections.Listener
}

type (
	remoteKey struct{}
	timerKey  struct{}
)

// TagConn remembers where a connection comes from.
func (s stopwatch) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, remoteKey{}, info.RemoteAddr)
}

// HandleConn is part of the interface.
func (s stopwatch) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC has room for the timer of a request.
func (s stopwatch) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, timerKey{}, new(atomic.Pointer[time.Timer]))
}

// HandleRPC takes the time from the beginning of a request to its end.
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
