// Package ports finds ports for servers that cannot choose one themselves. A server that accepts port 0 needs none of
// this.
package ports

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// first is the lowest port to use, above the ports of well-known services.
const first = 10000

// Free returns a TCP port that is not in use on any address, and reserves it for this test.
func Free(t testing.TB) int {
	t.Helper()
	port, reservation, err := Reserve("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reservation.Close() })
	return port
}

// Reserve returns a TCP port that is not in use on an address, or on any address if that is empty. Nobody else gets it from this package
// until the reservation is closed. It is outside of the kernel's range for automatic ports: otherwise any connection, or a server on
// all addresses, could take it before its user listens there.
func Reserve(address string) (port int, reservation io.Closer, err error) {
	end, err := firstEphemeral()
	if err != nil {
		return 0, nil, err
	}
	if end <= first {
		return 0, nil, fmt.Errorf("the kernel picks from all ports from %d on: see /proc/sys/net/ipv4/ip_local_port_range", end)
	}
	for {
		port := first + rand.IntN(end-first)
		reservation, err := net.Listen("unix", "@berth-port-"+strconv.Itoa(port)) // visible to all processes of the machine
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err == nil {
			listener.Close()
			return port, reservation, nil
		}
		reservation.Close()
		if !errors.Is(err, syscall.EADDRINUSE) {
			return 0, nil, err
		}
	}
}

// Address returns a loopback address with a port that Free reserved for this test.
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Free(t)))
}

// firstEphemeral returns the lowest port that the kernel picks.
func firstEphemeral() (port int, err error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Sscan(string(text), &port); err != nil {
		return 0, fmt.Errorf("ip_local_port_range is %q: %w", text, err)
	}
	return port, nil
}
