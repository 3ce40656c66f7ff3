// Package connections limits a server's connections, so that no network client can lock out others or exhaust the
// server's memory.
package connections

import (
	"container/list"
	"net"
	"sync"
)

// Limits are the maximum numbers of open connections.
type Limits struct {
	// PerHost is the limit for one address. Further connections from it are closed.
	PerHost int
	// Total is the limit for all addresses. A further connection closes the oldest one. If the new one were closed instead, early clients
	// could lock out later ones, such as kubelet, which would then restart the server.
	Total int
}

// Listener accepts connections within limits.
type Listener struct {
	net.Listener
	limits Limits

	mutex sync.Mutex
	open  *list.List // of *connection, oldest first
	hosts map[string]int
}

// Limit returns a listener that accepts another listener's connections within limits.
func Limit(listener net.Listener, limits Limits) *Listener {
	return &Listener{Listener: listener, limits: limits, open: list.New(), hosts: map[string]int{}}
}

// Accept waits for the next connection within the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.admit(conn); admitted != nil {
			return admitted, nil
		}
		_ = conn.Close()
	}
}

// admit counts a connection. It returns nil if its host has too many.
func (l *Listener) admit(conn net.Conn) net.Conn {
	host := hostOf(conn.RemoteAddr())
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.hosts[host] >= l.limits.PerHost {
		return nil
	}
	if l.open.Len() >= l.limits.Total {
		oldest := l.open.Front().Value.(*connection)
		l.forget(oldest)
		_ = oldest.Conn.Close()
	}
	c := &connection{Conn: conn, listener: l, host: host}
	c.element = l.open.PushBack(c)
	l.hosts[host]++
	return c
}

// forget stops counting a connection.
func (l *Listener) forget(c *connection) {
	if c.element == nil {
		return
	}
	l.open.Remove(c.element)
	c.element = nil
	if l.hosts[c.host]--; l.hosts[c.host] == 0 {
		delete(l.hosts, c.host)
	}
}

// Cut closes the connection from an address and port.
func (l *Listener) Cut(remote net.Addr) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for e := l.open.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*connection); c.RemoteAddr().String() == remote.String() {
			l.forget(c)
			_ = c.Conn.Close()
			return
		}
	}
}

func hostOf(address net.Addr) string {
	if host, _, err := net.SplitHostPort(address.String()); err == nil {
		return host
	}
	return address.String()
}

type connection struct {
	net.Conn
	listener *Listener
	host     string
	element  *list.Element // nil if the listener no longer counts it
}

// Close closes the connection and stops counting it.
func (c *connection) Close() error {
	c.listener.mutex.Lock()
	c.listener.forget(c)
	c.listener.mutex.Unlock()
	return c.Conn.Close()
}
