package metrics_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/metrics"
)

const waitLimit = 30 * time.Second

// TestAttacks: a client that reaches the operator over the network without any permission tries to exhaust it or to lock
// out other clients.
func TestAttacks(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	namespace := c.Namespace(t)
	reader := c.ServiceAccountConfig(t, namespace, "reader").BearerToken
	allowMetrics(t, c, namespace, "reader")

	for _, attack := range []struct {
		name  string
		hold  func(conn *tls.Conn) error // sends something over a new connection, and then nothing
		plain bool                       // hold gets a connection without TLS
	}{
		{name: "say nothing", plain: true},
		{name: "send half a request", hold: func(conn *tls.Conn) error {
			_, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ")
			return err
		}},
		{name: "send no body", hold: func(conn *tls.Conn) error {
			_, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
			return err
		}},
		{name: "ask no second time", hold: func(conn *tls.Conn) error {
			if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				return err
			}
			_, err := http.ReadResponse(bufio.NewReader(conn), nil)
			return err
		}},
	} {
		t.Run("keep a connection/"+attack.name, func(t *testing.T) {
			t.Parallel()
			s := serveWith(t, c, metrics.RunWithShortTimeouts, metrics.ServeOptions{})
			raw := s.dial(t, "127.0.0.2")
			var conn net.Conn = raw
			if !attack.plain {
				conn = tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
				require.NoError(t, attack.hold(conn.(*tls.Conn)))
			}
			awaitClosed(t, conn)
		})
	}

	t.Run("read no answer", func(t *testing.T) {
		t.Parallel()
		s := serveWith(t, c, metrics.RunWithShortTimeouts, metrics.ServeOptions{})
		conn := tls.Client(s.dial(t, "127.0.0.2"), &tls.Config{InsecureSkipVerify: true})
		// Requests until nothing more fits between the two, and then none.
		requests := strings.Repeat("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 1000)
		require.NoError(t, conn.SetWriteDeadline(time.Now().Add(waitLimit)))
		for {
			if _, err := io.WriteString(conn, requests); err != nil {
				var timeout net.Error
				if errors.As(err, &timeout) && timeout.Timeout() {
					t.Error("the server waits for somebody who does not read")
				}
				return
			}
		}
	})

	t.Run("send endless headers", func(t *testing.T) {
		t.Parallel()
		s := serve(t, c)
		conn := tls.Client(s.dial(t, "127.0.0.2"), &tls.Config{InsecureSkipVerify: true})
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 30<<10)+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		assert.EqualValues(t, http.StatusRequestHeaderFieldsTooLarge, response.StatusCode, "status")
	})

	t.Run("take all connections", func(t *testing.T) {
		t.Parallel()
		s := serve(t, c)
		// From a few addresses, twice as many connections as allowed, and then from very many addresses.
		var held []net.Conn
		for host := range 4 {
			for range 16 {
				held = append(held, s.dial(t, fmt.Sprintf("127.0.1.%d", host+1)))
			}
			s.checkHealth(t)
		}
		for host := range 200 {
			held = append(held, s.dial(t, fmt.Sprintf("127.0.2.%d", host+1)))
		}
		s.checkHealth(t)
		open := 0
		for _, conn := range held {
			_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			var timeout net.Error
			if _, err := conn.Read(make([]byte, 1)); errors.As(err, &timeout) && timeout.Timeout() {
				open++
			}
		}
		assert.LessOrEqualf(t, open, 64, "how many of %d connections are open", len(held))
		if code, _, err := s.get("/metrics", reader); err != nil || code != http.StatusOK {
			t.Errorf("Prometheus gets %d, %v", code, err)
		}
	})

	t.Run("have tokens reviewed", func(t *testing.T) {
		t.Parallel()
		s := serveWith(t, c, metrics.RunWithShortTimeouts, metrics.ServeOptions{})
		// The client was accepted before the attack begins.
		cluster.Eventually(t, waitLimit, "the reader to be known", func(context.Context) error {
			code, _, err := s.get("/metrics", reader)
			if err == nil && code != http.StatusOK {
				err = fmt.Errorf("status %d", code)
			}
			return err
		})
		before := s.reviews(t, c)
		begin := time.Now()
		statuses := map[int]int{}
		var mutex sync.Mutex
		var flood sync.WaitGroup
		for worker := range 7 { // one less than the connections allowed per host: closing ones overlap
			flood.Go(func() {
				client := s.client("127.0.0.2")
				defer client.CloseIdleConnections()
				for i := range 100 {
					token := "the same"
					if i%2 == 0 {
						token = fmt.Sprintf("made up %d %d", worker, i)
					}
					code, _, err := s.getBy(client, "/metrics", token)
					if err != nil {
						t.Error(err)
						return
					}
					mutex.Lock()
					statuses[code]++
					mutex.Unlock()
				}
			})
		}
		if code, _, err := s.get("/metrics", reader); err != nil || code != http.StatusOK {
			t.Errorf("Prometheus gets %d, %v", code, err)
		}
		flood.Wait()
		seconds := time.Since(begin).Seconds()
		reviews := s.reviews(t, c) - before
		t.Logf("700 requests with 351 junk tokens in %.1f s: statuses %v, %d TokenReviews", seconds, statuses, reviews)
		if statuses[http.StatusUnauthorized] == 0 || statuses[http.StatusTooManyRequests] == 0 {
			t.Errorf("statuses %v, want some %d and %d", statuses, http.StatusUnauthorized, http.StatusTooManyRequests)
		}
		assert.Zero(t, statuses[http.StatusOK], "junk tokens that were accepted")
		assert.LessOrEqual(t, reviews, 10+int(10*(seconds+1))+2, "TokenReviews for which the API server was asked")
	})

	t.Run("send one junk token again and again", func(t *testing.T) {
		t.Parallel()
		s := serve(t, c)
		before := s.reviews(t, c)
		var flood sync.WaitGroup
		for range 8 {
			flood.Go(func() {
				client := s.client("127.0.0.2")
				defer client.CloseIdleConnections()
				for range 25 {
					if code, _, err := s.getBy(client, "/metrics", "made up"); err != nil || code != http.StatusUnauthorized {
						t.Errorf("status %d, %v, want %d", code, err, http.StatusUnauthorized)
					}
				}
			})
		}
		flood.Wait()
		if reviews := s.reviews(t, c) - before; reviews > 2 { // two, if it takes longer than a rejection is cached
			t.Errorf("200 requests with one token led to %d TokenReviews, want 1", reviews)
		}
	})
}

// TestTokensForMetrics: a token of the operator's own account for its metrics can read them, and is valid nowhere else. A
// token of another account cannot.
func TestTokensForMetrics(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	namespace := c.Namespace(t)
	const audience = "operator-metrics.example.svc"
	own := "system:serviceaccount:" + namespace + ":operator"
	s := serveWith(t, c, metrics.Serve, metrics.ServeOptions{Account: own, Audience: audience})
	allowMetrics(t, c, namespace, "reader")
	for _, account := range []string{"operator", "reader"} {
		c.ServiceAccountConfig(t, namespace, account)
	}
	for _, test := range []struct {
		account, audience string
		code              int
	}{
		{"operator", audience, http.StatusOK},
		{"operator", "", http.StatusForbidden}, // RBAC does not allow it
		{"operator", "another.example.svc", http.StatusUnauthorized},
		{"reader", audience, http.StatusForbidden},
		{"reader", "another.example.svc", http.StatusUnauthorized},
	} {
		token := tokenFor(t, c, namespace, test.account, test.audience)
		if code, _, err := s.get("/metrics", token); err != nil || code != test.code {
			t.Errorf("a token of %s for %q gets %d, %v, want %d", test.account, test.audience, code, err, test.code)
		}
		if test.audience != audience {
			continue
		}
		config := c.Config()
		config.TLSClientConfig.CertData, config.TLSClientConfig.KeyData = nil, nil
		config.TLSClientConfig.CertFile, config.TLSClientConfig.KeyFile = "", ""
		config.BearerToken = token
		kube, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		if _, err := kube.Discovery().ServerVersion(); err == nil || !strings.Contains(err.Error(), "provide credentials") && !strings.Contains(err.Error(), "Unauthorized") {
			t.Errorf("the API server accepts the token for metrics: %v", err)
		}
	}
	// The audience that a token claims is not trusted.
	forged := "e30.eyJhdWQiOlsib3BlcmF0b3ItbWV0cmljcy5leGFtcGxlLnN2YyJdfQ.e30"
	if code, _, err := s.get("/metrics", forged); err != nil || code != http.StatusUnauthorized {
		t.Errorf("a forged token gets %d, %v", code, err)
	}
}

// tokenFor requests a token of a service account for an audience, or for the API server if that is empty.
func tokenFor(t *testing.T, c *cluster.Cluster, namespace, account, audience string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	who := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	require.NoError(t, c.Client().SubResource("token").Create(t.Context(), who, request))
	return request.Status.Token
}

// dial connects to the server from a loopback address.
func (s server) dial(t *testing.T, from string) net.Conn {
	t.Helper()
	conn, err := dialerFrom(from).Dial("tcp", s.address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func dialerFrom(address string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: waitLimit}
}

// client returns a client with keep-alive connections from a loopback address.
func (s server) client(from string) *http.Client {
	return &http.Client{Timeout: waitLimit, Transport: &http.Transport{
		DialContext: dialerFrom(from).DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

// awaitClosed waits until the server has closed a connection.
func awaitClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(waitLimit)))
	var timeout net.Error
	if _, err := io.Copy(io.Discard, conn); errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the server keeps the connection for more than %v", waitLimit)
	}
}

// checkHealth probes the health endpoint as the kubelet does.
func (s server) checkHealth(t *testing.T) {
	t.Helper()
	if code, _, err := s.get("/healthz", ""); err != nil || code != http.StatusOK {
		t.Errorf("kubelet gets %d, %v", code, err)
	}
}

// reviews counts the TokenReviews that the server has requested.
func (s server) reviews(t *testing.T, c *cluster.Cluster) (count int) {
	t.Helper()
	for _, event := range c.AuditOf(t, cluster.Requests{Agent: s.agent}) {
		if event.Resource == "tokenreviews" && event.Agent == s.agent {
			count++
		}
	}
	return count
}
