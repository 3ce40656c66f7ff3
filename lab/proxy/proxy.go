// Package proxy serves HTTP CONNECT requests: as a handler with a dialer of its user's choice, and as a proxy like the
// one behind which a company runs its clusters, which knows names that its clients cannot resolve.
package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Handler connects clients with the addresses, "host:port", that they name in CONNECT requests. It refuses an address
// with the error of dial.
func Handler(dial func(ctx context.Context, address string) (net.Conn, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "want the method CONNECT", http.StatusMethodNotAllowed)
			return
		}
		server, err := dial(r.Context(), r.RequestURI)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			server.Close()
			return
		}
		io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
		Join(client, server)
	})
}

// Join copies data between two connections in both directions, until both have ended. It closes them.
func Join(a, b net.Conn) {
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{a: b, b: a} {
		both.Go(func() {
			io.Copy(to, from)
			// The other direction may go on.
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				half.CloseWrite()
			}
		})
	}
	both.Wait()
	a.Close()
	b.Close()
}

// Proxy is a running proxy.
type Proxy struct {
	// Address is where it listens, at a free port of 127.0.0.1.
	Address string

	names map[string]string

	mu       sync.Mutex
	accepted []string
}

// Start starts a proxy that serves until the test ends. names maps the addresses, "name:port", that clients may name to
// the addresses of servers; it refuses all others.
func Start(t testing.TB, names map[string]string) *Proxy {
	t.Helper()
	p := &Proxy{names: names}
	server := httptest.NewServer(Handler(p.dial))
	t.Cleanup(server.Close)
	p.Address = server.Listener.Addr().String()
	return p
}

// Accepted returns the addresses that clients were connected with, in this order.
func (p *Proxy) Accepted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.accepted)
}

func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	server, ok := p.names[address]
	if !ok {
		return nil, fmt.Errorf("connect to %s: this proxy does not know it", address)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted = append(p.accepted, address)
	return conn, nil
}
