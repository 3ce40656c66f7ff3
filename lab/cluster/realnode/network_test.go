package realnode

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// network returns a network of two nodes.
func network(t *testing.T) *Network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	n, err := NewNetwork(2)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	return n
}

// dialFrom connects from a node.
func dialFrom(place *Place, to string) error {
	return place.inside(func() error {
		conn, err := net.DialTimeout("tcp", to, dialLimit)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// TestNetworkHasNoWayOut: a node reaches only forwarded addresses and the other node.
func TestNetworkHasNoWayOut(t *testing.T) {
	n := network(t)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	machine := server.Listener.Addr().String()
	first, second := n.Places()[0], n.Places()[1]

	const metadata = "169.254.169.254:80"
	for _, to := range []string{machine, metadata, "192.0.2.1:80"} {
		assert.Errorf(t, dialFrom(first, to), "a node connects to %s", to)
	}
	require.NoError(t, n.Forward(metadata, machine))
	for _, place := range n.Places() {
		assert.NoErrorf(t, dialFrom(place, metadata), "node %s connects to what is forwarded", place.Address)
	}
	assert.Errorf(t, dialFrom(first, machine), "with a forwarder to it, a node connects to %s directly", machine)
	_, err := n.Listen(second, "0.0.0.0:1234")
	assert.Error(t, err, "a node got the address 0.0.0.0")
	_, err = n.Listen(second, "127.0.0.1:1234")
	require.NoError(t, err)
	assert.Error(t, dialFrom(first, second.Address.String()+":1234"), "a node connects to the other one's loopback")
	for _, to := range []string{first.Address.String(), second.Address.String()} {
		assert.ErrorContains(t, dialFrom(first, to+":9"), unix.ECONNREFUSED.Error(), "connect to a node where nothing listens")
	}
}

// TestProxyConnectsToNodesOnly: the API server's proxy connects to nodes and to this machine's loopback addresses.
func TestProxyConnectsToNodesOnly(t *testing.T) {
	n := network(t)
	proxy := httptest.NewServer(n.Proxy())
	defer proxy.Close()
	onMachine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "machine") }))
	defer onMachine.Close()
	place := n.Places()[1]
	var onNode net.Listener
	require.NoError(t, place.inside(func() (err error) {
		onNode, err = net.Listen("tcp", place.Address.String()+":80")
		return err
	}))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "node") })}
	go server.Serve(onNode)
	defer server.Close()

	via, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	for to, want := range map[string]string{
		place.Address.String() + ":80":         "node",
		onMachine.Listener.Addr().String():     "machine",
		"192.0.2.1:80":                         "want the address of a real node or of one of its pods",
		"node.example.com:80":                  "want an IP address",
		n.Places()[0].Address.String() + ":80": "refused",
	} {
		assert.Contains(t, throughProxy(t, via.Host, to), want, to)
	}
}

// throughProxy returns a server's answer through a proxy's CONNECT, or the proxy's own answer.
func throughProxy(t *testing.T, proxy, to string) string {
	t.Helper()
	conn, err := net.Dial("tcp", proxy)
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", to, to)
	answers := bufio.NewReader(conn)
	answer, err := http.ReadResponse(answers, &http.Request{Method: http.MethodConnect})
	require.NoError(t, err)
	if answer.StatusCode == http.StatusOK {
		fmt.Fprint(conn, "GET / HTTP/1.0\r\n\r\n")
		answer, err = http.ReadResponse(answers, nil)
		require.NoError(t, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(body)
}
