package transport_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/operator/transport"
)

// TestDeadline: an API server needs longer for the objects of a large cluster than for one object.
func TestDeadline(t *testing.T) {
	for _, test := range []struct {
		name, query string
		want        time.Duration // 0 for no deadline
	}{
		{"an object", "", 10 * time.Second},
		{"a write", "fieldManager=berth&force=true", 10 * time.Second},
		{"a watch", "watch=true&resourceVersion=7", 0},
		{"a page", "limit=50", time.Minute},
		{"a later page", "continue=abc&limit=50", time.Minute},
		{"the first list of an informer", "limit=500&resourceVersion=0", time.Minute},
		{"its later lists, which have no pages", "resourceVersion=7", time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answered := transport.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
					got := time.Duration(0)
					if deadline, ok := request.Context().Deadline(); ok {
						got = time.Until(deadline)
					}
					assert.Equal(t, test.want, got, "how long the request has")
					return &http.Response{Body: http.NoBody}, nil
				})
				request, err := http.NewRequest(http.MethodGet, "https://example.com/api/v1/pods?"+test.query, nil)
				require.NoError(t, err)
				response, err := transport.WithDeadline(&rest.Config{}).WrapTransport(answered).RoundTrip(request)
				require.NoError(t, err)
				response.Body.Close()
			})
		})
	}
}
