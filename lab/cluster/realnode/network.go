package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/lab/proxy"
)

// APIServer is the address of the API server for the pods and the other programs of a node. It is the first address of
// the network for Services: Kubernetes gives it to the Service "kubernetes", and kubelets tell it to all pods.
const APIServer = "10.217.0.1:443"

// registryAddress is where a node's containerd finds the registry of the node's images.
const registryAddress = "127.0.0.1:5000"

// Networks as on OpenShift: one for the nodes, and a subnet of the pods' network for each node.
var (
	nodeNetwork = netip.MustParsePrefix("10.0.0.0/24")
	podNetwork  = netip.MustParsePrefix("10.128.0.0/14")
)

// firstNode is the last octet of the first node's address.
const firstNode = 10

// maxNodes is the number of nodes that a network has addresses for.
const maxNodes = 100

// Network connects the nodes of a cluster with each other, and with nothing else. It consists of network namespaces:
// one for each node, and one with a bridge between them. They exist as long as this process or a process in them runs.
//
// A node has no route out of the network. This process forwards the permitted connections to this machine: see Listen
// and Forward. In the other direction, Proxy lets the API server connect to kubelets and pods. There is no kube-proxy:
// the only Service whose address works is "kubernetes".
type Network struct {
	places []*Place

	bridge  *os.File // the namespace of the bridge
	mu      sync.Mutex
	closers []io.Closer
}

// Place is the network namespace of a node, with its addresses.
type Place struct {
	Address netip.Addr
	// Pods is the subnet of the node's pods.
	Pods      netip.Prefix
	namespace *os.File
}

// NewNetwork creates the network for a number of nodes.
func NewNetwork(nodes int) (_ *Network, err error) {
	if nodes > maxNodes {
		return nil, fmt.Errorf("a network has addresses for %d nodes, not for %d", maxNodes, nodes)
	}
	n := &Network{}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	if n.bridge, err = newNamespace(); err != nil {
		return nil, err
	}
	bridge, err := netlink.NewHandleAt(netns.NsHandle(n.bridge.Fd()))
	if err != nil {
		return nil, err
	}
	defer bridge.Close()
	between := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "nodes"}}
	if err := errors.Join(bridge.LinkAdd(between), bridge.LinkSetUp(between)); err != nil {
		return nil, fmt.Errorf("create the bridge between nodes: %w", err)
	}
	for i := range nodes {
		place := newPlace(i)
		if place.namespace, err = newNamespace(); err != nil {
			return nil, err
		}
		n.places = append(n.places, place)
		if err := n.connect(place, bridge, between); err != nil {
			return nil, fmt.Errorf("connect node %s: %w", place.Address, err)
		}
	}
	for _, place := range n.places {
		if err := place.addRoutes(n.places); err != nil {
			return nil, fmt.Errorf("add the routes of node %s: %w", place.Address, err)
		}
	}
	return n, nil
}

func newPlace(index int) *Place {
	node, pods := nodeNetwork.Addr().As4(), podNetwork.Addr().As4()
	node[3] = byte(firstNode + index)
	pods[2] = byte(2 * index)
	return &Place{Address: netip.AddrFrom4(node), Pods: netip.PrefixFrom(netip.AddrFrom4(pods), 23)}
}

// connect connects a node to the bridge.
func (n *Network) connect(place *Place, bridge *netlink.Handle, between netlink.Link) error {
	node, err := netlink.NewHandleAt(netns.NsHandle(place.namespace.Fd()))
	if err != nil {
		return err
	}
	defer node.Close()
	port := "node-" + place.Address.String()[len("10.0.0."):]
	cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: port, PeerNamespace: netlink.NsFd(n.bridge.Fd())}
	if err := node.LinkAdd(cable); err != nil {
		return fmt.Errorf("create its network device: %w", err)
	}
	plug, err := bridge.LinkByName(port)
	if err != nil {
		return err
	}
	if err := errors.Join(bridge.LinkSetMaster(plug, between), bridge.LinkSetUp(plug)); err != nil {
		return fmt.Errorf("attach it to the bridge: %w", err)
	}
	loopback, err := node.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := node.AddrAdd(cable, address(netip.PrefixFrom(place.Address, nodeNetwork.Bits()))); err != nil {
		return err
	}
	return errors.Join(node.LinkSetUp(loopback), node.LinkSetUp(cable))
}

// forwarding holds the kernel settings of a node that forwards packets of its pods. Without a rate limit for ICMP, the
// node tells a pod within a second that there is no route to an address. With the default limit, clients would keep
// waiting for unreachable addresses.
var forwarding = map[string]string{"ip_forward": "1", "icmp_ratelimit": "0"}

// addRoutes makes a node forward packets between its pods and the pods of other nodes.
func (p *Place) addRoutes(all []*Place) error {
	handle, err := netlink.NewHandleAt(netns.NsHandle(p.namespace.Fd()))
	if err != nil {
		return err
	}
	defer handle.Close()
	for _, other := range all {
		if other == p {
			continue
		}
		if err := handle.RouteAdd(&netlink.Route{Dst: address(other.Pods).IPNet, Gw: other.Address.AsSlice()}); err != nil {
			return err
		}
	}
	return p.inside(func() error {
		for name, value := range forwarding {
			if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv4", name), []byte(value), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}

func address(prefix netip.Prefix) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}}
}

// Places returns the nodes' places.
func (n *Network) Places() []*Place { return n.places }

// Listen is like Place.Listen for the network "tcp". Closing the network also closes the listener.
func (n *Network) Listen(place *Place, at string) (net.Listener, error) {
	listener, err := place.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", place.Address, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closers = append(n.closers, listener)
	return listener, nil
}

// Listen listens in the node. For the network "tcp", at is an address "IP:port"; for the network "unix", it is an
// abstract socket. If the IP address is not a loopback address, Listen adds it to the node, and the node's pods can
// reach it, too.
func (p *Place) Listen(network, at string) (listener net.Listener, err error) {
	err = p.listen(network, at, func() error {
		listener, err = net.Listen(network, at)
		return err
	})
	return listener, err
}

// ListenPacket is like Listen, for the network "udp".
func (p *Place) ListenPacket(network, at string) (conn net.PacketConn, err error) {
	err = p.listen(network, at, func() error {
		conn, err = net.ListenPacket(network, at)
		return err
	})
	return conn, err
}

func (p *Place) listen(network, at string, listen func() error) error {
	if network != "unix" {
		where, err := netip.ParseAddrPort(at)
		if err != nil {
			return err
		}
		if where.Addr().IsUnspecified() {
			return fmt.Errorf("listen on %s: want a specific address", at)
		}
		if !where.Addr().IsLoopback() {
			if err := p.addAddress(where.Addr()); err != nil {
				return fmt.Errorf("give the address %s to the node: %w", where.Addr(), err)
			}
		}
	}
	if err := p.inside(listen); err != nil {
		return fmt.Errorf("listen on %s: %w", at, err)
	}
	return nil
}

// Start starts a program of this machine in the node's network.
func (p *Place) Start(program *exec.Cmd) error { return p.inside(program.Start) }

// Find returns the place of a running node. dir is the node's folder. The returned place has no addresses: use only its
// methods Listen, ListenPacket and Close.
func Find(dir string) (*Place, error) {
	first, err := firstProcess(dir)
	if err != nil {
		return nil, err
	}
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", first))
	return &Place{namespace: namespace}, err
}

// Close releases the namespace of the place. Listeners in it stay open.
func (p *Place) Close() error { return p.namespace.Close() }

func (p *Place) addAddress(addr netip.Addr) error {
	handle, err := netlink.NewHandleAt(netns.NsHandle(p.namespace.Fd()))
	if err != nil {
		return err
	}
	defer handle.Close()
	loopback, err := handle.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := handle.AddrAdd(loopback, address(netip.PrefixFrom(addr, addr.BitLen()))); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// Forward makes a server on this machine reachable from every node. It listens in each node at the first address,
// "IP:port", and forwards connections from there to the second address.
func (n *Network) Forward(at, to string) error {
	for _, place := range n.places {
		listener, err := n.Listen(place, at)
		if err != nil {
			return err
		}
		go func() {
			for {
				client, err := listener.Accept()
				if err != nil {
					return // it was closed
				}
				go func() {
					server, err := net.DialTimeout("tcp", to, dialLimit)
					if err != nil {
						client.Close()
						return
					}
					proxy.Join(client, server)
				}()
			}
		}()
	}
	return nil
}

// dialLimit is the time limit for opening a connection. All servers are on this machine, so they answer fast.
const dialLimit = 10 * time.Second

// Proxy serves the CONNECT requests of the API server for connections to nodes and pods, and to loopback addresses of
// this machine. It refuses to connect to any other address.
func (n *Network) Proxy() http.Handler { return proxy.Handler(n.Dial) }

// Dial connects to a node, a pod or a loopback address of this machine.
func (n *Network) Dial(ctx context.Context, to string) (net.Conn, error) {
	where, err := netip.ParseAddrPort(to)
	if err != nil {
		return nil, fmt.Errorf("connect to %q: want an IP address and a port", to)
	}
	dialer := net.Dialer{Timeout: dialLimit}
	if where.Addr().IsLoopback() {
		return dialer.DialContext(ctx, "tcp", to)
	}
	for _, place := range n.places {
		if where.Addr() == place.Address || place.Pods.Contains(where.Addr()) {
			var conn net.Conn
			err := place.inside(func() (err error) {
				conn, err = dialer.DialContext(ctx, "tcp", to)
				return err
			})
			return conn, err
		}
	}
	return nil, fmt.Errorf("connect to %s: want the address of a real node or of one of its pods, or a loopback address", to)
}

// Close removes the network.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, closer := range n.closers {
		closer.Close()
	}
	for _, place := range n.places {
		place.namespace.Close()
	}
	n.bridge.Close()
}

// newNamespace creates a network namespace. The namespace exists as long as the returned file is open.
func newNamespace() (namespace *os.File, err error) {
	err = onOwnThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create a network namespace: %w", err)
		}
		namespace, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return namespace, err
}

// inside calls do in the node's network namespace. The sockets that do creates stay in it.
func (p *Place) inside(do func() error) error {
	return onOwnThread(func() error {
		if err := unix.Setns(int(p.namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the node's network namespace: %w", err)
		}
		return do()
	})
}

// onOwnThread calls do on a thread that runs nothing else and ends after do, because do changes the network namespace
// of its thread.
func onOwnThread(do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		result <- do()
	}()
	return <-result
}
