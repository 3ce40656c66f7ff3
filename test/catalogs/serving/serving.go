// Package serving serves catalogs to tests.
package serving

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/berth-csi/berth/catalog/server"
)

// Start serves the catalog in a folder over gRPC until the test ends, and returns the host and port.
func Start(t testing.TB, dir string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	listening, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, dir, server.Options{Address: "127.0.0.1:0", Report: func(e server.Event) {
			if e.Listening {
				listening <- e.Address
			}
		}})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	select {
	case address := <-listening:
		return address.String()
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	return ""
}

// Serve serves the catalog in a folder at an address until the context ends. It is for programs of pods.
func Serve(ctx context.Context, dir, address string) error {
	return server.Serve(ctx, dir, server.Options{Address: address})
}
