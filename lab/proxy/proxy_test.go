package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProxy(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello from "+r.Host) }))
	defer server.Close()
	// The server's certificate is valid for this name.
	p := Start(t, map[string]string{"example.com:443": server.Listener.Addr().String()})

	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.DialContext = nil
	transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: p.Address})
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	response, err := client.Get("https://example.com/")
	require.NoError(t, err)
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "hello from example.com" {
		t.Errorf("got %q, %v", body, err)
	}
	_, err = client.Get("https://example.org/")
	assert.ErrorContains(t, err, "Bad Gateway", "a server that the proxy does not know")
	assert.Equal(t, []string{"example.com:443"}, p.Accepted(), "it recorded")
	refused, err := client.Get("http://example.com/")
	require.NoError(t, err)
	refused.Body.Close()
	assert.Equal(t, http.StatusMethodNotAllowed, refused.StatusCode, "a request that is not encrypted")
}
