// Package serving answers those who ask how an operator is: kubelet whether it lives, and the cluster's
// monitoring for its metrics.
//
// library-go's controller command runs a generic API server for that. It would make up half of the
// operator's memory.
package serving

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

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/connections"
)

// endLimit is how long requests that are being answered may take when the server ends.
const endLimit = 2 * time.Second

// limits are what anybody who reaches the operator over the network can make of it. Those who have a
// reason to ask, kubelet and two Prometheuses, need a few connections.
type limits struct {
	connections connections.Limits
	// header is how long a connection may take until all headers of its first request are there, request how
	// long until the whole of one is, answer until the answer to it was taken, and idle how long until the next.
	header, request, answer, idle time.Duration
	headerBytes                   int

	// review is how long it may take to find out who asks. Of tokens that were not accepted lately,
	// reviewsPerSecond are looked into, and reviewsAtOnce after a pause, each after a wait of turn at most: the
	// API server is not to be asked as often as somebody makes up a token.
	review, turn     time.Duration
	reviewsPerSecond float32
	reviewsAtOnce    int
}

var defaults = limits{
	connections: connections.Limits{PerHost: 8, Total: 64},
	header:      5 * time.Second,
	request:     10 * time.Second,
	answer:      30 * time.Second,
	idle:        time.Minute, // Prometheus asks every half
	headerBytes: 16 << 10,

	review:           5 * time.Second,
	turn:             2 * time.Second,
	reviewsPerSecond: 10,
	reviewsAtOnce:    20,
}

// Options say where and how to serve.
type Options struct {
	// Address is the host and port to listen on.
	Address string
	// CertFolder is a folder with the certificate tls.crt and its key tls.key. They may come, change
	// and go at any time; without them a certificate is used that nobody can verify.
	CertFolder string
	// Kube is asked who wants to read metrics, and whether they may.
	Kube kubernetes.Interface
	// Account is the user name of the operator's own account. A token of it that is for Audience may be used
	// to read metrics, and can be used nowhere else: so it gives nothing away.
	Account, Audience string
}

// Run serves over HTTPS until ctx ends: /healthz to everybody, and /metrics to those whom RBAC allows
// to get that URL. It returns an error if it cannot listen.
func Run(ctx context.Context, options Options) error { return run(ctx, options, defaults) }

func run(ctx context.Context, options Options, limits limits) error {
	listener, err := net.Listen("tcp", options.Address)
	if err != nil {
		return fmt.Errorf("serving health and metrics: %w", err)
	}
	server := &http.Server{
		Handler: handler(newReviewer(options, limits)),
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: newCertificates(options.CertFolder).get,
		},
		// Without HTTP/2, a client cannot make us work by opening and dropping streams.
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ReadHeaderTimeout: limits.header,
		ReadTimeout:       limits.request,
		WriteTimeout:      limits.answer,
		IdleTimeout:       limits.idle,
		MaxHeaderBytes:    limits.headerBytes,
		ErrorLog:          log.New(sparing{flowcontrol.NewTokenBucketRateLimiter(0.1, 10)}, "", 0),
	}
	klog.Infof("serving health and metrics on %s", listener.Addr())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.ServeTLS(connections.Limit(listener, limits.connections), "", ""); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving health and metrics: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
		defer cancel()
		if server.Shutdown(last) != nil {
			server.Close()
		}
		return nil
	})
	return group.Wait()
}

// sparing logs some of what goes wrong with connections: anybody could have all of it fill the log.
type sparing struct{ limiter flowcontrol.RateLimiter }

func (s sparing) Write(line []byte) (int, error) {
	if s.limiter.TryAccept() {
		klog.Warningf("serving health and metrics: %s", bytes.TrimSpace(line))
	}
	return len(line), nil
}

func handler(reviewer *reviewer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /metrics", reviewer.reviewed(legacyregistry.Handler()))
	return mux
}
