// Package ports finds ports for servers that have to be told one. A server that can be given port 0 needs none of this.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// first is the lowest port that is used, above those that well-known services have.
const first = 10000

// Free returns a TCP port that nobody listens on, and that is this test's until its end. It is none of those that the
// kernel gives to whoever asks for any: any connection could take one of them before the server does.
func Free(t testing.TB) int {
	t.Helper()
	end, err := firstEphemeral()
	if err != nil {
		t.Fatal(err)
	}
	if end <= first {
		t.Fatalf("the kernel gives away all ports from %d on: see /proc/sys/net/ipv4/ip_local_port_range", end)
	}
	for {
		port := first + rand.IntN(end-first)
		claim, err := net.Listen("unix", "@berth-port-"+strconv.Itoa(port)) // seen by all processes of the machine
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { claim.Close() })
		listener, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
		return port
	}
}

// Address returns an address on loopback with such a port.
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Free(t)))
}

// firstEphemeral returns the first port that the kernel gives to whoever asks for any.
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
