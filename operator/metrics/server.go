package metrics

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	configclient "github.com/openshift/client-go/config/clientset/versioned"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/internal/connections"
)

// shutdownTimeout is how long requests in flight may take when the server shuts down.
const shutdownTimeout = 2 * time.Second

// limits are upper bounds for the work that a client on the network can make for the operator. The legitimate clients, a
// kubelet and two Prometheus servers, need a few connections.
type limits struct {
	connections connections.Limits
	// header, request and response are how long a client may take to send the headers of a request, to send all of it,
	// and to receive the response. idle is how long a connection may be idle between requests.
	header, request, response, idle time.Duration
	headerBytes                     int

	// review is how long it may take to authenticate and authorize a request. Reviews of tokens that were not accepted
	// recently are limited to reviewsPerSecond, with bursts of reviewBurst, and wait for reviewWait at most: a client
	// that makes up tokens must not cause a request to the API server for each token.
	review, reviewWait time.Duration
	reviewsPerSecond   float32
	reviewBurst        int
}

var defaults = limits{
	connections: connections.Limits{PerHost: 8, Total: 64},
	header:      5 * time.Second,
	request:     10 * time.Second,
	response:    30 * time.Second,
	idle:        time.Minute, // Prometheus scrapes every 30 seconds
	headerBytes: 16 << 10,

	review:           5 * time.Second,
	reviewWait:       2 * time.Second,
	reviewsPerSecond: 10,
	reviewBurst:      20,
}

// ServeOptions configure the server.
type ServeOptions struct {
	// Address is the host and port to listen on.
	Address string
	// CertFolder has the certificate tls.crt and its key tls.key. They may appear, change and disappear at any time.
	// Without them the server uses a self-signed certificate.
	CertFolder string
	// Kube authenticates and authorizes requests for metrics.
	Kube kubernetes.Interface
	// Config reads the cluster's TLS profile.
	Config configclient.Interface
	// Account is the user name of the operator's service account. A token of this account for Audience may read
	// metrics. It is valid nowhere else, so leaking it does no harm.
	Account, Audience string
}

// Serve serves over HTTPS, as the cluster's TLS profile says, until ctx ends: /healthz to everybody, and /metrics to
// clients that RBAC allows to get that URL. It returns an error if it cannot listen. library-go's controller command
// runs a generic API server for that, which would double the operator's memory.
func Serve(ctx context.Context, options ServeOptions) error { return run(ctx, options, defaults) }

func run(ctx context.Context, options ServeOptions, limits limits) error {
	listener, err := net.Listen("tcp", options.Address)
	if err != nil {
		return fmt.Errorf("serving health and metrics: %w", err)
	}
	profile := newProfile(options.Config)
	config := &tls.Config{GetCertificate: newCertificates(options.CertFolder).get, NextProtos: []string{"http/1.1"}}
	server := &http.Server{
		Handler: profile.closing(config, handler(newReviewer(options, limits))),
		// Each connection gets the profile that is current when it begins.
		TLSConfig: &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return profile.apply(config), nil }},
		// Without HTTP/2, a client cannot cause load by opening and resetting streams.
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ReadHeaderTimeout: limits.header,
		ReadTimeout:       limits.request,
		WriteTimeout:      limits.response,
		IdleTimeout:       limits.idle,
		MaxHeaderBytes:    limits.headerBytes,
		ErrorLog:          log.New(rateLimitedLog{flowcontrol.NewTokenBucketRateLimiter(0.1, 10)}, "", 0),
	}
	klog.InfoS("Serving health and metrics", "address", listener.Addr())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		profile.run(ctx)
		return nil
	})
	group.Go(func() error {
		if err := server.ServeTLS(connections.Limit(listener, limits.connections), "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving health and metrics: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if server.Shutdown(last) != nil {
			server.Close()
		}
		return nil
	})
	return group.Wait()
}

// rateLimitedLog logs errors of connections at a limited rate: any client can cause them and could fill the log.
type rateLimitedLog struct{ limiter flowcontrol.RateLimiter }

func (l rateLimitedLog) Write(line []byte) (int, error) {
	if l.limiter.TryAccept() {
		klog.InfoS("A connection failed", "reason", string(bytes.TrimSpace(line)))
	}
	return len(line), nil
}

func handler(reviewer *reviewer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /metrics", reviewer.reviewed(legacyregistry.Handler()))
	return mux
}
