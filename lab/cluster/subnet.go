package cluster

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"

	"github.com/berth-csi/berth/lab/ports"
)

// subnet is a part of the loopback network, 127.N.0.0/16, that one cluster has while it lives. Control plane and pods
// listen only in it. So clusters do not interfere with each other, and nobody takes a port between finding it free
// and listening on it.
type subnet struct {
	number      int
	reservation net.Listener
	ports       []io.Closer
}

// Numbers of subnets. The lower ones are left to 127.0.0.1, and to 127.0.1.1 and 127.0.0.53, which Linux
// distributions use.
const firstSubnet, lastSubnet = 64, 250

// acquireSubnet takes a subnet that no other cluster on this machine has. It reserves it by an abstract socket, which
// disappears with the process that holds it.
func acquireSubnet() (*subnet, error) {
	count := lastSubnet - firstSubnet + 1
	start := rand.IntN(count)
	for i := range count {
		number := firstSubnet + (start+i)%count
		reservation, err := net.Listen("unix", "@berth-cluster-127."+strconv.Itoa(number))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reserve the loopback subnet 127.%d: %w", number, err)
		}
		return &subnet{number: number, reservation: reservation}, nil
	}
	return nil, fmt.Errorf("all %d loopback subnets are in use by other clusters; stop some", count)
}

func (s *subnet) release() {
	for _, port := range s.ports {
		port.Close()
	}
	s.reservation.Close()
}

// controlPlane returns the control plane's address.
func (s *subnet) controlPlane() string { return fmt.Sprintf("127.%d.0.1", s.number) }

// node returns the prefix of the addresses of a node's pods, such as "127.83.12". Nodes count from 0.
func (s *subnet) node(index int) string { return fmt.Sprintf("127.%d.%d", s.number, index+1) }

// reservePorts reserves ports of the control plane's address until the subnet is released. Other ports could be taken by other programs
// whose servers listen on all addresses.
func (s *subnet) reservePorts(count int) ([]int, error) {
	var all []int
	for range count {
		port, reservation, err := ports.Reserve(s.controlPlane())
		if err != nil {
			return nil, fmt.Errorf("find a free port on %s: %w", s.controlPlane(), err)
		}
		s.ports = append(s.ports, reservation)
		all = append(all, port)
	}
	return all, nil
}
