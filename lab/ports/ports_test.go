package ports

import (
	"net"
	"slices"
	"testing"
)

// TestFree: the kernel does not pick these ports for connections, and no two tests get the same.
func TestFree(t *testing.T) {
	end, err := firstEphemeral()
	if err != nil {
		t.Fatal(err)
	}
	var taken []int
	for range 200 {
		port := Free(t)
		if port < first || port >= end || slices.Contains(taken, port) {
			t.Fatalf("got %d, want one from %d to %d that is none of %d", port, first, end-1, taken)
		}
		taken = append(taken, port)
	}
	listener, err := net.Listen("tcp", Address(t))
	if err != nil {
		t.Fatalf("a server cannot listen there: %v", err)
	}
	listener.Close()
}

// TestReserve: the kernel does not give a reserved port to a server on all addresses, and the next reservation is another port until
// this one is closed.
func TestReserve(t *testing.T) {
	end, err := firstEphemeral()
	if err != nil {
		t.Fatal(err)
	}
	var taken []int
	for range 200 {
		port, reservation, err := Reserve("127.0.0.2")
		if err != nil {
			t.Fatal(err)
		}
		defer reservation.Close()
		if port < first || port >= end || slices.Contains(taken, port) {
			t.Fatalf("got %d, want one from %d to %d that is none of %d", port, first, end-1, taken)
		}
		taken = append(taken, port)
	}
}
