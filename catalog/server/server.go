// Package server serves a catalog to OLM over the registry protocol (gRPC), and reloads it when it changes.
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

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/connections"
)

// DefaultAddress is where Serve listens by default: OLM's usual port, on loopback because the protocol has neither
// encryption nor authentication.
const DefaultAddress = "127.0.0.1:50051"

// shutdownTimeout is how long Serve waits when it is stopped: for in-flight requests, and for clients that connected but have not
// sent anything yet.
const shutdownTimeout = 3 * time.Second

// Options are the options of Serve.
type Options struct {
	// Address is the host and port to listen on, by default DefaultAddress. Port 0 means any free port.
	Address string
	// MetricsAddress is the host and port to serve /metrics and /healthz on over HTTP. If it is empty, they are not served.
	MetricsAddress string
	// Folders may store the documents of the catalog while they are served. Serve uses the first that it can write to, by default the
	// folder for temporary files. If it can write to none, it reads the documents from the catalog again.
	Folders []string
	// Unchanging says that the catalog does not change while it is served, as in an image, so that its JSON documents need no copy. If
	// it does change, requests for these fail until the catalog has been read again.
	Unchanging bool
	// Memory is the server's memory in bytes; 0 means plenty. The less there is, the fewer answers are made at once.
	Memory int64
	// Report receives events. It may be nil.
	Report func(Event)
}

// Event is an event while a catalog is served.
type Event struct {
	// Listening is set once clients can connect to Address, and to MetricsAddress if that is not nil.
	Listening               bool
	Address, MetricsAddress net.Addr
	// Catalog is the catalog that is served from now on. Copies of its documents take Size bytes on disk.
	Catalog *fbc.Catalog
	Size    int64
	// Err says why a changed catalog is not served. The earlier one still is.
	Err error
}

// Serve serves the catalog in a folder over OLM's registry protocol until ctx is done, then lets in-flight requests finish
// and returns nil. When the catalog changes, later requests are answered from the new one, over the same connections. A catalog
// that is not valid is not served: Serve fails before it listens, or keeps serving the earlier catalog.
func Serve(ctx context.Context, dir string, options Options) error {
	return serve(ctx, dir, options, defaults.within(options.Memory))
}

func serve(ctx context.Context, dir string, options Options, limits limits) (err error) {
	first, err := options.open(ctx, dir)
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
	ready := Event{Listening: true, Address: listener.Addr(), Catalog: first.Catalog, Size: first.Size()}

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
		served.watch(ctx, dir, options, report)
		return nil
	})
	group.Go(func() error {
		stop := context.AfterFunc(ctx, func() { drain(answering) })
		defer stop()
		if err := answering.Serve(limited); !errors.Is(err, grpc.ErrServerStopped) {
			return err
		}
		return nil // stopped before it began
	})
	report(ready)
	return group.Wait()
}

// newServer returns a server that answers from the current content.
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

// drain stops a server gracefully, and closes remaining connections after shutdownTimeout.
func drain(s *grpc.Server) {
	cut := time.AfterFunc(shutdownTimeout, s.Stop)
	defer cut.Stop()
	s.GracefulStop()
}

// listen listens on an address, or on a default if it is empty.
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
