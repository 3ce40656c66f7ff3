// Package server answers OLM from a catalog, by the registry protocol (gRPC). It follows changes of
// the catalog.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/server"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/berth-csi/berth/connections"
	"github.com/berth-csi/berth/fbc"
)

// DefaultAddress is where Serve listens: OLM's usual port, on loopback, for the protocol knows neither
// encryption nor who asks.
const DefaultAddress = "127.0.0.1:50051"

// patience is how long Serve waits for others when it is told to stop: for requests that it is
// answering, and for clients that connected and said nothing yet.
const patience = 3 * time.Second

// Options say how to serve a catalog.
type Options struct {
	// Address is the host and port to listen on, DefaultAddress if empty. Port 0 takes a free one.
	Address string
	// MetricsAddress is the host and port to answer HTTP requests on, for /metrics and /healthz. There
	// are no answers if it is empty.
	MetricsAddress string
	// Report hears what happens. It may be nil.
	Report func(Event)
}

// Event is something that happens while a catalog is served.
type Event struct {
	// Listening is set when clients can connect, to Address, and for metrics to MetricsAddress if that
	// is not nil.
	Listening               bool
	Address, MetricsAddress net.Addr
	// Catalog is what is served from now on, of which Size bytes are kept on disk.
	Catalog *fbc.Catalog
	Size    int64
	// Err says why the catalog, which has changed, is not served. What was served before still is.
	Err error
}

// Serve answers OLM's registry protocol from the catalog in a folder until ctx is done; then it lets
// running requests end and returns nil. When the catalog changes, later requests are answered from
// what it is then, over the same connections. A catalog that is not valid is not served: Serve fails
// before it listens, and goes on with what it has when there is one.
func Serve(ctx context.Context, dir string, options Options) error {
	return serve(ctx, dir, options, defaults)
}

func serve(ctx context.Context, dir string, options Options, limits limits) (err error) {
	first, err := open(ctx, dir)
	if err != nil {
		return err
	}
	var served current
	served.Store(first)
	defer func() { err = errors.Join(err, served.Load().Close()) }()

	listener, err := listen(options.Address, DefaultAddress)
	if err != nil {
		return err
	}
	counts := newMetrics(&served)
	report := func(e Event) {
		if e.Catalog != nil || e.Err != nil {
			counts.count(e)
		}
		if options.Report != nil {
			options.Report(e)
		}
	}
	limited := connections.Limit(listener, limits.connections)
	answering := newServer(&served, counts, limits.serverOptions(limited)...)
	ready := Event{Listening: true, Address: listener.Addr(), Catalog: first.Catalog, Size: first.store.Size()}

	group, ctx := errgroup.WithContext(ctx)
	if options.MetricsAddress != "" {
		web, err := listen(options.MetricsAddress, "")
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		ready.MetricsAddress = web.Addr()
		group.Go(func() error { return counts.serve(ctx, connections.Limit(web, limits.connections)) })
	}
	group.Go(func() error {
		served.watch(ctx, dir, report)
		return nil
	})
	group.Go(func() error {
		stop := context.AfterFunc(ctx, func() { drain(answering) })
		defer stop()
		if err := answering.Serve(limited); !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil // it was told to stop before it began
	})
	report(ready)
	return group.Wait()
}

// newServer returns a server that answers from what is current.
func newServer(content *current, counts *metrics, options ...grpc.ServerOption) *grpc.Server {
	s := grpc.NewServer(append(options,
		grpc.UnaryInterceptor(counts.requests.UnaryServerInterceptor()),
		grpc.StreamInterceptor(counts.requests.StreamServerInterceptor()))...)
	api.RegisterRegistryServer(s, server.NewRegistryServer(content))
	api.RegisterExperimentalRegistryServer(s, server.NewExperimentalRegistryServer(content))
	grpc_health_v1.RegisterHealthServer(s, server.NewHealthServer())
	reflection.Register(s)
	counts.requests.InitializeMetrics(s)
	return s
}

// drain stops a server, and cuts off what has not ended when patience does.
func drain(s *grpc.Server) {
	cut := time.AfterFunc(patience, s.Stop)
	defer cut.Stop()
	s.GracefulStop()
}

// listen listens on an address, or on another one if it is empty.
func listen(address, otherwise string) (net.Listener, error) {
	if address == "" {
		address = otherwise
	}
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("address %s is in use by another process; stop that one, or choose another address, "+
			"such as 127.0.0.1:0 for any free port: %w", address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %q; expected a host and port of this machine, such as %s: %w", address, DefaultAddress, err)
	}
	return listener, nil
}
