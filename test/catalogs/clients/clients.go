// Package clients sends the server of a catalog the requests of many clients of OLM at once.
package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Dial opens a connection for the client with a number.
type Dial func(ctx context.Context, client int) (net.Conn, error)

// FromLoopback dials from another address of this machine for each client: a server may limit the connections of a host.
func FromLoopback(address string) Dial {
	return func(ctx context.Context, client int) (net.Conn, error) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+client))}}
		return dialer.DialContext(ctx, "tcp", address)
	}
}

// List makes some clients list all bundles once, at the same time, as OLM does when it resolves. It returns how many bundles one client
// got.
func List(ctx context.Context, dial Dial, clients int) (bundles int64, err error) {
	group, ctx := errgroup.WithContext(ctx)
	var got atomic.Int64
	for i := range clients {
		group.Go(func() error {
			return with(ctx, dial, i, func(client api.RegistryClient) error {
				stream, err := client.ListBundles(ctx, &api.ListBundlesRequest{})
				if err != nil {
					return err
				}
				n := int64(0)
				for ; ; n++ {
					if _, err := stream.Recv(); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						return fmt.Errorf("after %d bundles: %w", n, err)
					}
				}
				got.Store(n)
				return nil
			})
		})
	}
	err = group.Wait()
	return got.Load(), err
}

// Ask makes some clients ask for packages and the heads of their channels, one request after the other, for a time. It returns the number
// of answers.
func Ask(ctx context.Context, dial Dial, clients int, packages []string, during time.Duration) (answers int64, err error) {
	group, ctx := errgroup.WithContext(ctx)
	var got atomic.Int64
	end := time.Now().Add(during)
	for i := range clients {
		group.Go(func() error {
			return with(ctx, dial, i, func(client api.RegistryClient) error {
				for n := i; time.Now().Before(end); n++ {
					p, err := client.GetPackage(ctx, &api.GetPackageRequest{Name: packages[n%len(packages)]})
					if err != nil {
						return err
					}
					//lint:ignore SA1019 OLM still asks this
					if _, err := client.GetBundleForChannel(ctx, &api.GetBundleInChannelRequest{PkgName: p.GetName(), ChannelName: p.GetDefaultChannelName()}); err != nil {
						return err
					}
					got.Add(2)
				}
				return nil
			})
		})
	}
	err = group.Wait()
	return got.Load(), err
}

// Packages waits for the first answer of a server, and returns the names of its packages.
func Packages(ctx context.Context, dial Dial) (names []string, err error) {
	err = with(ctx, dial, 0, func(client api.RegistryClient) error {
		stream, err := client.ListPackages(ctx, &api.ListPackageRequest{}, grpc.WaitForReady(true))
		for err == nil {
			var p *api.PackageName
			if p, err = stream.Recv(); err == nil {
				names = append(names, p.GetName())
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	return names, err
}

// with calls do with a client that has a connection of its own.
func with(ctx context.Context, dial Dial, i int, do func(api.RegistryClient) error) (err error) {
	connection, err := grpc.NewClient("passthrough:///catalog", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx, i) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	if err := do(api.NewRegistryClient(connection)); err != nil {
		return fmt.Errorf("client %d: %w", i, err)
	}
	return nil
}
