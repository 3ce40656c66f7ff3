package image

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
)

// A registry may send its clients on: to where it keeps its layers, or to who hands out tokens. Whoever runs one,
// and gets somebody to pull from it, could so have requests sent from within that somebody's network. A guard
// sends them on only to places that registries have a reason for:
//
//   - from a registry that is spoken to in HTTPS, only by HTTPS, so that services which are not meant to be found
//     there fail before they see a request;
//   - never to this machine, unless that is where the registry is, and never to addresses that are valid on one
//     link only, which is where clouds offer their machines credentials.
//
// Private addresses are allowed: storage within a company has them.
type guard struct {
	registry string // its host and port
	secure   bool   // whether it is spoken to in HTTPS
	local    bool   // whether it is on this machine
}

// maxAnswer is how long an answer may be that is no layer, in bytes: what registries take for a manifest
// (https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pushing-manifests).
const maxAnswer = 4 << 20

// The transports are shared, for the connections that they keep. The one to the registry itself, or to a proxy,
// connects to any address: a user named it.
var (
	toNamed  = newTransport(func(string, string, syscall.RawConn) error { return nil })
	toPublic = newTransport(func(_, address string, _ syscall.RawConn) error { return checkAddress(address, false) })
	toLocal  = newTransport(func(_, address string, _ syscall.RawConn) error { return checkAddress(address, true) })
)

func newTransport(control func(network, address string, _ syscall.RawConn) error) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Control: control}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          100,
		MaxIdleConnsPerHost:   50,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
	}
}

func newGuard(registry name.Registry) *guard {
	host := registry.RegistryStr()
	return &guard{registry: host, secure: registry.Scheme() == "https", local: isLocal(hostOf(host))}
}

// RoundTrip sends a request, if it may be sent.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	by, err := g.transport(request)
	if err != nil {
		return nil, err
	}
	response, err := by.RoundTrip(request)
	if err == nil && !(response.StatusCode == http.StatusOK && isForLayer(request)) {
		response.Body = &answer{response.Body, maxAnswer}
	}
	return response, err
}

func (g *guard) transport(request *http.Request) (*http.Transport, error) {
	to := request.URL
	if to.Host == g.registry {
		return toNamed, nil
	}
	if g.secure && to.Scheme != "https" {
		return nil, unfit("its registry sends us on to %q, without encryption; expected an address in HTTPS", to.Scheme+"://"+to.Host)
	}
	if address, err := netip.ParseAddr(to.Hostname()); err == nil && isForbidden(address, g.local) || isLocal(to.Hostname()) && !g.local {
		return nil, forbidden(to.Host)
	}
	if proxy, err := http.ProxyFromEnvironment(request); err != nil || proxy != nil {
		return toNamed, err // the proxy decides what can be reached through it
	}
	if g.local {
		return toLocal, nil
	}
	return toPublic, nil
}

func forbidden(address string) error {
	return unfit("its registry sends us on to %q, an address of this machine or its cloud; expected one that registries keep layers at", address)
}

// checkAddress refuses an address that is connected to, whatever its name is.
func checkAddress(address string, local bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if isForbidden(at.Addr(), local) {
		return forbidden(address)
	}
	return nil
}

// metadata are addresses at which clouds offer their machines credentials, and which look like others.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200")}

func isForbidden(address netip.Addr, local bool) bool {
	address = address.Unmap().WithZone("")
	if address.IsLoopback() || address.IsUnspecified() {
		return !local
	}
	for _, known := range metadata {
		if address == known {
			return true
		}
	}
	return address.IsLinkLocalUnicast() || address.IsMulticast()
}

// isLocal tells whether a host is this machine, by its name.
func isLocal(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	address, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && address.Unmap().IsLoopback()
}

// hostOf returns a host without its port.
func hostOf(hostAndPort string) string {
	if host, _, err := net.SplitHostPort(hostAndPort); err == nil {
		return host
	}
	return strings.Trim(hostAndPort, "[]")
}

// isForLayer tells whether a request, or the one that led to it, is for a layer.
func isForLayer(request *http.Request) bool {
	for request.Response != nil && request.Response.Request != nil {
		request = request.Response.Request
	}
	return strings.Contains(request.URL.Path, "/blobs/")
}

// answer is an answer that may be only so long.
type answer struct {
	io.ReadCloser
	left int
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if a.left -= n; a.left < 0 {
		return 0, unfit("its registry answers with more than %d bytes where a manifest or a token is expected; expected less", maxAnswer)
	}
	return n, err
}

// isPassing tells whether a request may succeed if it is made again.
func isPassing(err error) bool {
	if content := (*contentError)(nil); errors.As(err, &content) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	var temporary interface{ Temporary() bool }
	return errors.As(err, &temporary) && temporary.Temporary() || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}
