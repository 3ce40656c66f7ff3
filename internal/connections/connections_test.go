package connections_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/connections"
)

// server accepts connections and keeps them open.
type server struct {
	*connections.Listener
	t        *testing.T
	accepted chan net.Conn
}

func serve(t *testing.T, limits connections.Limits) server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := server{connections.Limit(listener, limits), t, make(chan net.Conn, 100)}
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := s.Accept()
			if err != nil {
				ended <- err
				return
			}
			s.accepted <- conn
		}
	}()
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		assert.ErrorIs(t, <-ended, net.ErrClosed, "accepting ended with")
	})
	return s
}

// dial connects from a loopback address.
func (s server) dial(from string) net.Conn {
	s.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	conn, err := dialer.Dial("tcp", s.Addr().String())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// admit connects and expects the server to accept. It returns both ends.
func (s server) admit(from string) (client, served net.Conn) {
	s.t.Helper()
	client = s.dial(from)
	select {
	case served = <-s.accepted:
		return client, served
	case <-time.After(10 * time.Second):
		s.t.Fatalf("a connection from %s was not accepted", from)
		return nil, nil
	}
}

// checkClosed checks that the server has closed a connection.
func (s server) checkClosed(what string, conn net.Conn) {
	s.t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		s.t.Errorf("%s is open: %v", what, err)
	}
}

// checkOpen checks that a connection still carries data.
func (s server) checkOpen(what string, client, served net.Conn) {
	s.t.Helper()
	_ = client.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := served.Write([]byte("x"))
	assert.NoError(s.t, err, what)
	_, err = io.ReadFull(client, make([]byte, 1))
	assert.NoError(s.t, err, what)
}

func TestAHostHasSoMany(t *testing.T) {
	s := serve(t, connections.Limits{PerHost: 2, Total: 10})
	first, served := s.admit("127.0.0.1")
	second, alsoServed := s.admit("127.0.0.1")
	s.checkClosed("the third connection of a host", s.dial("127.0.0.1"))
	other, otherServed := s.admit("127.0.0.2")
	s.checkOpen("the first connection", first, served)
	s.checkOpen("the second connection", second, alsoServed)
	s.checkOpen("that of another host", other, otherServed)

	for range 2 { // closing twice counts once
		_ = served.Close()
	}
	s.admit("127.0.0.1")
	s.checkClosed("the connection after the one that replaced a closed one", s.dial("127.0.0.1"))
}

func TestTheOldestMakesRoom(t *testing.T) {
	s := serve(t, connections.Limits{PerHost: 2, Total: 3})
	var clients, served []net.Conn
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.1", "127.0.0.3", "127.0.0.1"} {
		client, end := s.admit(host) // the fifth is the first host's third, whose first has been closed
		clients, served = slices.Concat(clients, []net.Conn{client}), slices.Concat(served, []net.Conn{end})
	}
	s.checkClosed("the oldest", clients[0])
	s.checkClosed("the second", clients[1])
	for i := 2; i < 5; i++ {
		s.checkOpen("a later one", clients[i], served[i])
	}
}

func TestCut(t *testing.T) {
	s := serve(t, connections.Limits{PerHost: 2, Total: 2})
	bad, _ := s.admit("127.0.0.1")
	good, served := s.admit("127.0.0.1")
	s.Cut(bad.LocalAddr())
	s.Cut(bad.LocalAddr()) // it is gone already
	s.checkClosed("the connection that was cut", bad)
	s.checkOpen("the other one", good, served)
	s.admit("127.0.0.1")
}
