package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestReasons: a library's error about a connection becomes a sentence with advice, which wraps the error.
func TestReasons(t *testing.T) {
	answers := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	plain, encrypted := httptest.NewServer(answers), httptest.NewUnstartedServer(answers)
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail
	encrypted.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(encrypted.Close)
	nobody := httptest.NewServer(answers)
	nobody.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts by its backlog, and never says a word
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	for _, test := range []struct{ name, url, sentence, behind string }{
		{"nobody listens", nobody.URL, "nothing listens there; check that it runs", "connection refused"},
		{"no such host", "https://nowhere.invalid", "there is no host of that name", "nowhere.invalid"},
		{"an unknown authority", encrypted.URL, "its certificate is not one that the kubeconfig file trusts", "x509: "},
		{"no TLS", strings.Replace(plain.URL, "http:", "https:", 1), "it does not speak TLS", "first record does not look like a TLS handshake"},
		{"no answer", "https://" + silent.Addr().String(), "it does not answer in time", "timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			requests := &http.Client{Transport: &connection{&http.Transport{TLSHandshakeTimeout: time.Second}}}
			_, err := requests.Get(test.url)
			require.Error(t, err, "there is no error")
			got := explain(fmt.Errorf("listing pods: %w", err))
			if want := "cannot reach the cluster at "; !strings.HasPrefix(got.Error(), want) || !strings.Contains(got.Error(), test.sentence) {
				t.Errorf("the message is %q, want one that begins with %q and says %q", got, want, test.sentence)
			}
			if behind := errors.Unwrap(got); behind == nil || !strings.HasPrefix(behind.Error(), "listing pods: Get ") || !strings.Contains(behind.Error(), test.behind) {
				t.Errorf("behind the message is %v, want what was done, and %q", behind, test.behind)
			}
		})
	}
	t.Run("credentials that are refused", func(t *testing.T) {
		refused := fmt.Errorf("listing pods: %w", apierrors.NewUnauthorized("Unauthorized"))
		if got := explain(refused); !strings.Contains(got.Error(), "log in again") || !errors.Is(got, refused) {
			t.Errorf("the message is %q, want one that says to log in again", got)
		}
	})
	t.Run("a request that is given up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, nobody.URL, nil)
		require.NoError(t, err)
		_, err = (&connection{http.DefaultTransport}).RoundTrip(request)
		if err == nil || as[*reason](err) {
			t.Errorf("the error is %v, want that of the context", err)
		}
	})
	t.Run("several errors", func(t *testing.T) {
		several := errors.Join(&reason{"one", errors.New("its cause")}, errors.New("two"))
		if got := explain(several); got != several {
			t.Errorf("the error is %v, want all of %v", got, several)
		}
	})
}
