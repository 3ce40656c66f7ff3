// Package server answers OLM from a catalog, by the registry protocol (gRPC).
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/cache"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"github.com/operator-framework/operator-registry/pkg/server"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/berth-csi/berth/catalog/document"
	"github.com/berth-csi/berth/catalog/rules"
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
	// Ready, if set, is called once with the address that clients can connect to.
	Ready func(net.Addr)
}

// Serve answers OLM's registry protocol (gRPC) from the catalog in a folder, as it stands at the
// start, until ctx is done; then it lets running requests end and returns nil. It fails before it
// listens if OLM's own server would refuse the catalog; the errors are then those of rules.Load,
// which is stricter.
func Serve(ctx context.Context, dir string, options Options) (err error) {
	content, err := open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()

	listener, err := listen(options.Address)
	if err != nil {
		return err
	}
	answering := newServer(content)
	stop := context.AfterFunc(ctx, func() { drain(answering) })
	defer stop()
	if options.Ready != nil {
		options.Ready(listener.Addr())
	}
	if err := answering.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil // it was told to stop before it began
}

// newServer returns a server that answers from content.
func newServer(content registry.GRPCQuery) *grpc.Server {
	s := grpc.NewServer(grpc.ConnectionTimeout(patience))
	api.RegisterRegistryServer(s, server.NewRegistryServer(content))
	api.RegisterExperimentalRegistryServer(s, server.NewExperimentalRegistryServer(content))
	grpc_health_v1.RegisterHealthServer(s, server.NewHealthServer())
	reflection.Register(s)
	return s
}

// drain stops a server, and cuts off what has not ended when patience does.
func drain(s *grpc.Server) {
	cut := time.AfterFunc(patience, s.Stop)
	defer cut.Stop()
	s.GracefulStop()
}

func listen(address string) (net.Listener, error) {
	if address == "" {
		address = DefaultAddress
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

// content is a catalog made ready to be queried: a cache on disk, in a folder of its own.
type content struct {
	cache.Cache
	dir string
}

// open makes the catalog in a folder ready to be queried.
func open(ctx context.Context, dir string) (*content, error) {
	if _, err := document.List(dir); err != nil {
		return nil, err
	}
	cacheDir, err := os.MkdirTemp("", "berth-catalog-")
	if err != nil {
		return nil, err
	}
	opened, err := build(ctx, dir, cacheDir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(cacheDir))
	}
	return opened, nil
}

// build fills cacheDir from the catalog in dir.
func build(ctx context.Context, dir, cacheDir string) (*content, error) {
	store, err := cache.New(cacheDir)
	if err != nil {
		return nil, err
	}
	c := &content{Cache: store, dir: cacheDir}
	if err := store.Build(ctx, os.DirFS(dir)); err != nil {
		// The cache judges as Load does, but does not tell where the fault stands, and stops at the first.
		_, explained := rules.Load(ctx, dir)
		if explained == nil {
			explained = fmt.Errorf("catalog folder %s: %w", dir, err)
		}
		return nil, errors.Join(explained, store.Close())
	}
	if err := store.Load(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("catalog folder %s: %w", dir, err), store.Close())
	}
	packages, err := store.ListPackages(ctx)
	if err == nil && len(packages) == 0 {
		_, err = rules.Load(ctx, dir)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return c, nil
}

// Close gives up the cache and removes its folder.
func (c *content) Close() error {
	return errors.Join(c.Cache.Close(), os.RemoveAll(c.dir))
}
