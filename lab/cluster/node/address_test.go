package node

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAddressesAreTakenInTurn(t *testing.T) {
	a, err := newAddresses("127.83.12")
	require.NoError(t, err)
	assert.Equal(t, "127.83.12.1", a.node(), "the node's address")
	seen := map[string]bool{a.node(): true}
	for range lastPodAddress - firstPodAddress + 1 {
		ip, err := a.take()
		require.NoError(t, err)
		require.Falsef(t, seen[ip], "%s is in use", ip)
		seen[ip] = true
	}
	ip, err := a.take()
	assert.Errorf(t, err, "got %s, want an error, as all addresses are in use", ip)
	a.release("127.83.12.9")
	a.release("127.83.12.7")
	for _, want := range []string{"127.83.12.7", "127.83.12.9"} {
		if ip, err := a.take(); err != nil || ip != want {
			t.Errorf("got %s, %v, want %s", ip, err, want)
		}
	}
	a.release("127.83.12.7")
	a.release("127.83.12.10")
	if ip, err := a.take(); err != nil || ip != "127.83.12.10" {
		t.Errorf("got %s, %v, want 127.83.12.10, as .7 was in use most recently", ip, err)
	}
}

func TestSubnetMustBeLoopback(t *testing.T) {
	for _, subnet := range []string{"", "10.0.0", "127.0", "127.0.0.0", "127.0.0/24", "127.256.0"} {
		_, err := newAddresses(subnet)
		assert.Errorf(t, err, "subnet %q is accepted", subnet)
	}
}
