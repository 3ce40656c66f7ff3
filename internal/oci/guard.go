package oci

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/net/http2"
)

// A registry may redirect its clients to the storage of its layers or to its token server, so its operators could make clients send
// requests within the clients' own network. A guard follows redirects only to addresses for which registries have a reason:
//
//   - from a registry that uses HTTPS, only to HTTPS, so that internal services which do not expect the request
//     fail in the handshake;
//   - never to this machine, unless the registry is on it, and never to link-local addresses, where clouds offer
//     machines their credentials.
//
// Private addresses are allowed, because companies store layers there, unless a stranger named the registry: otherwise, the author of a
// catalog could make the machine that mirrors it send requests to any address in its network, and copy the answers.
type guard struct {
	registry string // host and port
	secure   bool   // uses HTTPS
	local    bool   // is on this machine
	strange  bool   // was named by a stranger
	// unverified says that the registry may have any certificate.
	unverified bool
}

// maxAnswer is the maximum size of a response other than a layer, in bytes. It is the limit of registries for manifests
// (https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pushing-manifests).
const maxAnswer = 4 << 20

// maxHeader is the maximum size of the header of a response, in bytes.
const maxHeader = 256 << 10

// maxRefusal is the maximum number of bytes that are read from the response to a failed request. They become part of an error, and a
// command may keep one error for each image.
const maxRefusal = 16 << 10

// The transports are shared to reuse connections. toNamed may connect to any address: it is for the registry and the
// proxy, which the user chose.
var (
	toNamed      = newTransport(func(string, string, syscall.RawConn) error { return nil })
	toUnverified = unverifiedTransport()
	toPublic     = newTransport(func(_, address string, _ syscall.RawConn) error { return checkAddress(address, false) })
	toLocal      = newTransport(func(_, address string, _ syscall.RawConn) error { return checkAddress(address, true) })
	toWrite      = limited{reads: toNamed, writes: storing()}
	// toStrange is for registries that a stranger named.
	toStrange = newTransport(func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err == nil && isPrivate(at.Addr()) {
			err = private(address)
		}
		return err
	})
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
		// Many requests run at the same time.
		MaxResponseHeaderBytes: maxHeader,
	}
}

// storing is like toNamed, and waits as long as a registry needs to store what it got.
func storing() *http.Transport {
	transport := newTransport(func(string, string, syscall.RawConn) error { return nil })
	transport.ResponseHeaderTimeout = 30 * time.Minute
	return transport
}

// unverifiedTransport is like toNamed, and accepts any certificate.
func unverifiedTransport() *http.Transport {
	transport := newTransport(func(string, string, syscall.RawConn) error { return nil })
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the user asked for it
	return transport
}

func newGuard(registry name.Registry) *guard {
	host := registry.RegistryStr()
	return &guard{registry: host, secure: registry.Scheme() == "https", local: isLocal(hostOf(host))}
}

// RoundTrip sends a request if its address is allowed.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	by, err := g.transport(request)
	if err != nil {
		return nil, err
	}
	return roundTrip(by, request, g.isForLayer(request))
}

// limited sends requests to registries that the user named, to write there or to check what was written. These registries may redirect as
// they like, and send no layers. They may take longer to answer after they got something to store.
type limited struct{ reads, writes *http.Transport }

func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	by := l.writes
	if request.Method == http.MethodGet || request.Method == http.MethodHead {
		by = l.reads
	}
	return roundTrip(by, request, false)
}

// roundTrip sends a request. It limits the size of the answer, unless that is a layer, and aborts an answer that is too slow.
func roundTrip(by http.RoundTripper, request *http.Request, layer bool) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	response, err := by.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	response.Request = request
	response.Body = &minRateBody{ReadCloser: response.Body, cancel: cancel, left: stallLimit}
	switch {
	case response.StatusCode >= http.StatusBadRequest:
		response.Body = &beginning{io.LimitReader(response.Body, maxRefusal), response.Body}
	case response.StatusCode != http.StatusOK || !layer:
		response.Body = &limitedBody{response.Body, maxAnswer}
	}
	return response, nil
}

func (g *guard) transport(request *http.Request) (*http.Transport, error) {
	to := request.URL
	if g.strange {
		if address, err := netip.ParseAddr(to.Hostname()); err == nil && isPrivate(address) || isLocal(to.Hostname()) {
			return nil, private(to.Host)
		}
	}
	if to.Host == g.registry && !g.strange {
		if g.unverified {
			return toUnverified, nil
		}
		return toNamed, nil
	}
	if g.secure && to.Host != g.registry && to.Scheme != "https" {
		return nil, contentErrorf("its registry redirects to %q, without encryption; expected an address in HTTPS", to.Scheme+"://"+to.Host)
	}
	if address, err := netip.ParseAddr(to.Hostname()); err == nil && isForbidden(address, g.local) || isLocal(to.Hostname()) && !g.local {
		return nil, forbidden(to.Host)
	}
	if proxy, err := http.ProxyFromEnvironment(request); err != nil || proxy != nil {
		return toNamed, err // the proxy decides what can be reached through it
	}
	switch {
	case g.strange:
		return toStrange, nil
	case g.local:
		return toLocal, nil
	}
	return toPublic, nil
}

func forbidden(address string) error {
	return contentErrorf("its registry redirects to %q, an address of this machine or its cloud; expected an address where registries keep layers", address)
}

func private(address string) error {
	return contentErrorf("the catalog names a registry at %q, an address of this machine, its cloud or a private network; expected one that everybody can reach: if you want this one, name its host with --allow-host", address)
}

// isPrivate reports whether an address is not public.
func isPrivate(address netip.Addr) bool {
	address = reached(address)
	return isForbidden(address, false) || address.IsPrivate() || within(address, internal)
}

// internal are addresses that networks use for themselves, besides those of RFC 1918 and RFC 4193.
var internal = prefixes(
	"100.64.0.0/10",  // of providers and clusters behind their own NAT: RFC 6598
	"192.0.0.0/24",   // RFC 6890
	"198.18.0.0/15",  // RFC 2544
	"240.0.0.0/4",    // RFC 1112
	"64:ff9b:1::/48", // of networks that translate to IPv4 in their own way: RFC 8215
	"fec0::/10",      // RFC 3879
)

// translated are the IPv6 addresses that stand for an IPv4 address, by the position of the IPv4 address's first byte.
var translated = map[int][]netip.Prefix{
	2:  prefixes("2002::/16"),             // RFC 3056
	12: prefixes("64:ff9b::/96", "::/96"), // RFC 6052, RFC 4291
}

// reached returns the address that a connection to the given one reaches.
func reached(address netip.Addr) netip.Addr {
	address = address.Unmap().WithZone("")
	if address.IsLoopback() || address.IsUnspecified() {
		return address
	}
	for at, all := range translated {
		if within(address, all) {
			bytes := address.As16()
			return netip.AddrFrom4([4]byte(bytes[at : at+4]))
		}
	}
	return address
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func within(address netip.Addr, any []netip.Prefix) bool {
	return slices.ContainsFunc(any, func(p netip.Prefix) bool { return p.Contains(address) })
}

// checkAddress checks the address that a host name resolved to.
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

// metadata are the addresses of clouds' metadata services that are not link-local.
var metadata = prefixes("fd00:ec2::254/128", "fd20:ce::254/128", "100.100.100.200/32", "168.63.129.16/32")

// thisHost are addresses that lead to this machine, besides loopback: RFC 1122.
var thisHost = netip.MustParsePrefix("0.0.0.0/8")

func isForbidden(address netip.Addr, local bool) bool {
	address = reached(address)
	if address.IsLoopback() || address.IsUnspecified() || thisHost.Contains(address) {
		return !local
	}
	return address.IsLinkLocalUnicast() || address.IsMulticast() || within(address, metadata)
}

// isLocal reports whether a host name or address is this machine.
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

// layerKey is the context key of the path of the requested layer.
type layerKey struct{}

// forLayer returns a context which says that a request is for a layer, whose length its reader limits.
func forLayer(ctx context.Context, repo name.Repository, blob v1.Descriptor) context.Context {
	return context.WithValue(ctx, layerKey{}, "/v2/"+repo.RepositoryStr()+"/blobs/"+blob.Digest.String())
}

// isForLayer reports whether a request, or the one that was redirected to it, is for a layer. The library also requests tokens
// with the same context: from an address that the registry chooses, but always with parameters.
func (g *guard) isForLayer(request *http.Request) bool {
	for request.Response != nil && request.Response.Request != nil {
		request = request.Response.Request
	}
	path, is := request.Context().Value(layerKey{}).(string)
	return is && request.Method == http.MethodGet && request.URL.Host == g.registry && request.URL.Path == path && request.URL.RawQuery == ""
}

// A response slower than minRate, in bytes a second, for stallLimit is aborted.
const (
	stallLimit = 30 * time.Second
	minRate    = 1 << 10
)

// minRateBody is a response body that fails if it is too slow. Only time spent in Read counts.
type minRateBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc // of the request
	left   time.Duration
}

func (p *minRateBody) Read(buffer []byte) (int, error) {
	var slow atomic.Bool
	timer := time.AfterFunc(p.left, func() {
		slow.Store(true)
		p.cancel(nil)
	})
	begin := time.Now()
	n, err := p.ReadCloser.Read(buffer)
	timer.Stop()
	p.left = min(stallLimit, p.left-time.Since(begin)+time.Duration(n)*time.Second/minRate)
	if slow.Load() || p.left <= 0 {
		return 0, contentErrorf("its registry sends less than %d bytes a second; expected more", minRate)
	}
	return n, err
}

func (p *minRateBody) Close() error {
	defer p.cancel(nil)
	return p.ReadCloser.Close()
}

// beginning is the beginning of a response body.
type beginning struct {
	io.Reader
	io.Closer
}

// limitedBody is a response body with a maximum size.
type limitedBody struct {
	io.ReadCloser
	left int
}

func (a *limitedBody) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if a.left -= n; a.left < 0 {
		return 0, contentErrorf("its registry sent more than %d bytes instead of a manifest or a token; expected less", maxAnswer)
	}
	return n, err
}

// isTransient reports whether a request may succeed when it is retried.
func isTransient(err error) bool {
	if content := (*contentError)(nil); errors.As(err, &content) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	if reset := (http2.StreamError{}); errors.As(err, &reset) { // like a broken connection of HTTP/1
		return true
	}
	var temporary interface{ Temporary() bool }
	return errors.As(err, &temporary) && temporary.Temporary() || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}
