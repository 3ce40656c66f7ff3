package node

import (
	"fmt"
	"net/netip"
	"sync"
)

// addresses assigns the loopback addresses of a node's subnet: the first one to the node, the others to its pods.
// Programs can listen on any address of 127.0.0.0/8 without set-up.
type addresses struct {
	subnet string

	mu    sync.Mutex
	last  int
	taken map[string]bool
}

// The last octets of pods' addresses: .0 and .255 look like networks, and .1 is the node's.
const firstPodAddress, lastPodAddress = 2, 254

// newAddresses takes the first three octets of the subnet, such as "127.83.12".
func newAddresses(subnet string) (*addresses, error) {
	a := &addresses{subnet: subnet, last: firstPodAddress - 1, taken: map[string]bool{}}
	if ip, err := netip.ParseAddr(a.node()); err != nil || !ip.Is4() || !ip.IsLoopback() {
		return nil, fmt.Errorf("subnet: found %q, expected the first three octets of a loopback network, such as \"127.83.12\"", subnet)
	}
	return a, nil
}

func (a *addresses) node() string { return a.subnet + ".1" }

// take returns the address that has been free for longest, so that a new pod does not get connections of an old one.
func (a *addresses) take() (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	const count = lastPodAddress - firstPodAddress + 1
	for i := range count {
		octet := firstPodAddress + (a.last-firstPodAddress+1+i)%count
		ip := fmt.Sprintf("%s.%d", a.subnet, octet)
		if !a.taken[ip] {
			a.last, a.taken[ip] = octet, true
			return ip, nil
		}
	}
	return "", fmt.Errorf("all %d pod addresses of %s.0/24 are in use; delete pods or start another node", count, a.subnet)
}

func (a *addresses) release(ip string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.taken, ip)
}
