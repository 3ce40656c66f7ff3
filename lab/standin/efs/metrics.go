package efs

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithymiddleware "github.com/aws/smithy-go/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are where the driver serves metrics.
type Metrics struct {
	// Address is empty for none. With a certificate, they are served by TLS.
	Address, Certificate, Key string
}

// requests counts requests to EFS.
type requests struct {
	duration          *prometheus.HistogramVec
	failed, throttled *prometheus.CounterVec
}

func newRequests() *requests {
	labels := []string{"request", "service"}
	r := &requests{
		prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "aws_efs_csi_api_request_duration_seconds", Help: "AWS SDK API request duration by request type in seconds"}, labels),
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "aws_efs_csi_api_request_errors_total", Help: "Total number of AWS SDK API errors by error code and request type"}, append(labels, "code")),
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "aws_efs_csi_api_request_throttles_total", Help: "Total number of throttled AWS SDK API requests per request type"}, labels),
	}
	for _, action := range []string{"CreateAccessPoint", "DeleteAccessPoint", "DescribeAccessPoints", "DescribeFileSystems", "DescribeMountTargets"} {
		r.duration.WithLabelValues(action, typeEFS)
	}
	for _, action := range []string{"CreateAccessPoint", "DeleteAccessPoint", "ListAccessPoints", "ListFileSystems"} {
		r.duration.WithLabelValues(action, typeS3Files)
	}
	return r
}

// count has all requests of a client counted.
func (r *requests) count(stack *smithymiddleware.Stack) error {
	return stack.Finalize.Add(smithymiddleware.FinalizeMiddlewareFunc("count", func(ctx context.Context, in smithymiddleware.FinalizeInput, next smithymiddleware.FinalizeHandler) (
		smithymiddleware.FinalizeOutput, smithymiddleware.Metadata, error) {
		began, action := time.Now(), middleware.GetOperationName(ctx)
		out, metadata, err := next.HandleFinalize(ctx, in)
		r.duration.WithLabelValues(action, typeEFS).Observe(time.Since(began).Seconds())
		var failure smithy.APIError
		if errors.As(err, &failure) {
			if _, throttled := retry.DefaultThrottleErrorCodes[failure.ErrorCode()]; throttled {
				r.throttled.WithLabelValues(action, typeEFS).Inc()
			} else {
				r.failed.WithLabelValues(action, typeEFS, failure.ErrorCode()).Inc()
			}
		}
		return out, metadata, err
	}), smithymiddleware.After)
}

// serve serves metrics until ctx ends.
func (m Metrics) serve(ctx context.Context, r *requests) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.duration, r.failed, r.throttled)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Addr: m.Address, Handler: mux, ReadTimeout: 3 * time.Second, WriteTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	listen := server.ListenAndServe
	if m.Certificate != "" {
		listen = func() error { return server.ListenAndServeTLS(m.Certificate, m.Key) }
	}
	if err := listen(); ctx.Err() == nil {
		return err
	}
	return nil
}
