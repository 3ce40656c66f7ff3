package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// subnet is a slice of the loopback network, 127.N.0.0/16, that belongs to one cluster while it
// lives. Control plane and pods listen in it and nowhere else, so that clusters cannot get into
// each other's way, nor a port be taken between finding it free and listening on it.
type subnet struct {
	number int
	claim  net.Listener
}

// Numbers of subnets. The lower ones are left to others: 127.0.0.1, and the 127.0.1.1 and
// 127.0.0.53 that Linux distributions use.
const firstSubnet, lastSubnet = 64, 250

// claimSubnet takes a subnet that no other cluster on this machine has. The claim is a socket name
// in the kernel, which disappears with the process that holds it.
func claimSubnet() (*subnet, error) {
	count := lastSubnet - firstSubnet + 1
	start := rand.IntN(count)
	for i := range count {
		number := firstSubnet + (start+i)%count
		claim, err := net.Listen("unix", "@berth-cluster-127."+strconv.Itoa(number))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("claim the loopback subnet 127.%d: %w", number, err)
		}
		return &subnet{number: number, claim: claim}, nil
	}
	return nil, fmt.Errorf("all %d loopback subnets are claimed by other clusters; stop some", count)
}

func (s *subnet) release() { s.claim.Close() }

// controlPlane is the address that the control plane listens on.
func (s *subnet) controlPlane() string { return fmt.Sprintf("127.%d.0.1", s.number) }

// node is the prefix of the addresses of one node's pods, such as "127.83.12". Nodes count from 0.
func (s *subnet) node(index int) string { return fmt.Sprintf("127.%d.%d", s.number, index+1) }

// freePorts returns ports of an address that nobody listens on.
func freePorts(address string, count int) ([]int, error) {
	var ports []int
	for range count {
		listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			return nil, fmt.Errorf("find a free port on %s: %w", address, err)
		}
		defer listener.Close() // after the last one is found, so that they differ
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
