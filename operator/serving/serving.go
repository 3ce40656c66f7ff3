// Package serving answers those who ask how an operator is: kubelet whether it lives, and the cluster's
// monitoring for its metrics.
//
// library-go's controller command runs a generic API server for that. It would make up half of the
// operator's memory.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// endLimit is how long requests that are being answered may take when the server ends.
const endLimit = 2 * time.Second

// Options say where and how to serve.
type Options struct {
	// Address is the host and port to listen on.
	Address string
	// CertFolder is a folder with the certificate tls.crt and its key tls.key. They may come, change
	// and go at any time; without them a certificate is used that nobody can verify.
	CertFolder string
	// Kube is asked who wants to read metrics, and whether they may.
	Kube kubernetes.Interface
}

// Run serves over HTTPS until ctx ends: /healthz to everybody, and /metrics to those whom RBAC allows
// to get that URL. It returns an error if it cannot listen.
func Run(ctx context.Context, options Options) error {
	listener, err := net.Listen("tcp", options.Address)
	if err != nil {
		return fmt.Errorf("serving health and metrics: %w", err)
	}
	server := &http.Server{
		Handler: handler(options.Kube),
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: newCertificates(options.CertFolder).get,
		},
		// Without HTTP/2, a client cannot make us work by opening and dropping streams.
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ReadHeaderTimeout: 10 * time.Second,
	}
	klog.Infof("serving health and metrics on %s", listener.Addr())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
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

func handler(kube kubernetes.Interface) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /metrics", reviewed(kube, legacyregistry.Handler()))
	return mux
}
