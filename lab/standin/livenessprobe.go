package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// defaultHealthPort is where livenessProbe serves unless its arguments say otherwise.
const defaultHealthPort = "9808"

// livenessProbe is the sidecar that answers health checks for a driver. It waits for the driver, however long that takes, and
// does not serve before.
func livenessProbe(ctx context.Context, flags *flag.FlagSet) error {
	address, port, metrics := valueOf[string](flags, "http-endpoint"), valueOf[string](flags, "health-port"), valueOf[string](flags, "metrics-address")
	if address != "" && (port != defaultHealthPort || metrics != "") {
		return errors.New("only one of `--http-endpoint` and `--health-port` or `--metrics-address` can be explicitly set")
	}
	connection, err := connect(ctx, valueOf[string](flags, "csi-address"))
	if err != nil {
		return err
	}
	defer connection.Close()
	timeout := valueOf[time.Duration](flags, "probe-timeout")
	name, err := nameOf(ctx, connection)
	if err != nil {
		return err
	}
	calls := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "csi_sidecar_operations_seconds", Help: "Container Storage Interface operation duration with gRPC error code status total",
		ConstLabels: prometheus.Labels{"driver_name": name}, Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
	}, []string{"method_name", "grpc_status_code"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(calls)
	pages := map[string]http.Handler{"/healthz": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		answerHealth(w, probe(ctx, connection, calls))
	})}
	ofMetrics := map[string]http.Handler{valueOf[string](flags, "metrics-path"): promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
	group, ctx := errgroup.WithContext(ctx)
	switch {
	case address != "":
		for path, handler := range ofMetrics {
			pages[path] = handler
		}
	case metrics != "":
		group.Go(func() error { return serveHTTP(ctx, metrics, ofMetrics) })
	}
	if address == "" {
		address = net.JoinHostPort("0.0.0.0", port)
	}
	group.Go(func() error { return serveHTTP(ctx, address, pages) })
	return group.Wait()
}

// probe asks the driver whether it is ready.
func probe(ctx context.Context, connection *grpc.ClientConn, calls *prometheus.HistogramVec) error {
	began := time.Now()
	response, err := csi.NewIdentityClient(connection).Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true))
	calls.WithLabelValues("/csi.v1.Identity/Probe", status.Code(err).String()).Observe(time.Since(began).Seconds())
	switch {
	case err != nil:
		return fmt.Errorf("probe the driver: %w", err)
	case response.Ready != nil && !response.Ready.Value:
		return errors.New("driver responded but is not ready")
	}
	return nil
}
