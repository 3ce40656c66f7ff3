package transport

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// These bound how long a request waits for the API server. A controller whose request hangs stops working without
// reporting anything; one whose request fails reports the error and retries.
const (
	requestTimeout = 10 * time.Second
	// listTimeout is the API server's own default timeout for a request. In a large cluster, a list takes long.
	listTimeout = time.Minute
)

// WithDeadline returns a client configuration whose requests fail unless they are answered within requestTimeout, and
// lists within listTimeout. Watches are long-lived and have no deadline.
func WithDeadline(cfg *rest.Config) *rest.Config {
	limited := rest.CopyConfig(cfg)
	limited.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
			timeout, query := requestTimeout, request.URL.Query()
			switch {
			case query.Get("watch") == "true":
				return next.RoundTrip(request)
			case query.Has("limit") || query.Has("resourceVersion"): // informers set one of them in each list
				timeout = listTimeout
			}
			ctx, cancel := context.WithTimeout(request.Context(), timeout)
			response, err := next.RoundTrip(request.WithContext(ctx))
			if err != nil {
				cancel()
				return nil, err
			}
			response.Body = cancelOnClose{response.Body, cancel} // the deadline covers reading the body, too
			return response, nil
		})
	})
	return limited
}

type cancelOnClose struct {
	io.ReadCloser
	cancel func()
}

func (b cancelOnClose) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
