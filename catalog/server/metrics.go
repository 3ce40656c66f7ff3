package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	grpcprometheus "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the metrics of the server.
type metrics struct {
	registry *prometheus.Registry
	requests *grpcprometheus.ServerMetrics
	loads    *prometheus.CounterVec
	loaded   prometheus.Gauge
}

// The outcomes of loading the catalog.
const (
	outcomeServed  = "served"
	outcomeInvalid = "invalid"
)

func newMetrics(c *current) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: grpcprometheus.NewServerMetrics(grpcprometheus.WithServerHandlingTimeHistogram()),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "berth_catalog_loads_total",
			Help: "How often the catalog was loaded, by outcome: served, or invalid and not served."}, []string{"outcome"}),
		loaded: prometheus.NewGauge(prometheus.GaugeOpts{Name: "berth_catalog_loaded_timestamp_seconds",
			Help: "When the catalog that is served was loaded."}),
	}
	gauge := func(name, help string, value func(*content) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(c.Load())) })
	}
	m.registry.MustRegister(m.requests, m.loads, m.loaded,
		gauge("berth_catalog_packages", "How many packages are served.", func(c *content) int64 { return int64(len(c.Packages)) }),
		gauge("berth_catalog_bundles", "How many bundles are served.", func(c *content) (bundles int64) {
			for _, p := range c.Packages {
				bundles += int64(len(p.Bundles))
			}
			return bundles
		}),
		gauge("berth_catalog_cache_bytes", "How much of the catalog is kept on disk.", func(c *content) int64 { return c.Size() }),
	)
	for _, outcome := range []string{outcomeServed, outcomeInvalid} {
		m.loads.WithLabelValues(outcome)
	}
	return m
}

// count counts an event.
func (m *metrics) count(e Event) {
	if e.Err != nil {
		m.loads.WithLabelValues(outcomeInvalid).Inc()
		return
	}
	m.loads.WithLabelValues(outcomeServed).Inc()
	m.loaded.SetToCurrentTime()
}

// serve serves /metrics and /healthz over HTTP until ctx is done.
func (m *metrics) serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	web := &http.Server{Handler: mux, ReadTimeout: shutdownTimeout, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stop()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
