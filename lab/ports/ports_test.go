package ports

import (
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFree: the kernel does not pick these ports for connections, and no two tests get the same.
func TestFree(t *testing.T) {
	end, err := firstEphemeral()
	require.NoError(t, err)
	var taken []int
	for range 200 {
		port := Free(t)
		if port < first || port >= end || slices.Contains(taken, port) {
			t.Fatalf("got %d, want one from %d to %d that is none of %d", port, first, end-1, taken)
		}
		taken = append(taken, port)
	}
	listener, err := net.Listen("tcp", Address(t))
	require.NoError(t, err, "a server cannot listen there")
	listener.Close()
}

// TestReserve: the kernel does not give a reserved port to a server on all addresses, and the next reservation is another port until
// this one is closed.
func TestReserve(t *testing.T) {
	end, err := firstEphemeral()
	require.NoError(t, err)
	var taken []int
	for range 200 {
		port, reservation, err := Reserve("127.0.0.2")
		require.NoError(t, err)
		defer reservation.Close()
		if port < first || port >= end || slices.Contains(taken, port) {
			t.Fatalf("got %d, want one from %d to %d that is none of %d", port, first, end-1, taken)
		}
		taken = append(taken, port)
	}
}
