package operator

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// answerLimit bounds how long a request waits for the API server. A controller that waits for ever does
// nothing any more and says nothing of it; one whose request has failed reports that and tries again.
const answerLimit = 10 * time.Second

// withDeadline returns the configuration of a client whose requests fail if they are not answered within
// answerLimit. Watches have no end and so no limit.
func withDeadline(cfg *rest.Config) *rest.Config {
	limited := rest.CopyConfig(cfg)
	limited.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.URL.Query().Get("watch") == "true" {
				return next.RoundTrip(request)
			}
			ctx, cancel := context.WithTimeout(request.Context(), answerLimit)
			response, err := next.RoundTrip(request.WithContext(ctx))
			if err != nil {
				cancel()
				return nil, err
			}
			response.Body = limitedBody{response.Body, cancel} // reading it takes its time, too
			return response, nil
		})
	})
	return limited
}

type limitedBody struct {
	io.ReadCloser
	done func()
}

func (b limitedBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}
