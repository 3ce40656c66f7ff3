package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster/realnode"
	"github.com/berth-csi/berth/lab/cluster/realnode/machine"
	"github.com/berth-csi/berth/lab/cluster/tools"
)

// NeedRealNodes skips a test on a machine where real nodes cannot run.
func NeedRealNodes(t testing.TB) {
	t.Helper()
	if err := machine.Missing(); err != nil {
		t.Skip(err)
	}
}

// RealNode returns the name of a real node. index counts from 0.
func RealNode(index int) string { return "worker-" + strconv.Itoa(index) }

// NodeRoot returns the path of a real node's root folder, as this machine sees it. Files that are written there are
// the node's, such as links to devices in its /dev.
func (c *Cluster) NodeRoot(name string) (string, error) {
	return realnode.Root(realNodeFolder(c.Dir(), name))
}

// ContainerProcess returns the folder in /proc, as this machine sees it, of the first process of a container that runs on a real
// node.
func (c *Cluster) ContainerProcess(pod *corev1.Pod, container string) (string, error) {
	for _, status := range pod.Status.ContainerStatuses {
		id, found := strings.CutPrefix(status.ContainerID, "containerd://")
		if status.Name != container || !found {
			continue
		}
		root, err := c.NodeRoot(pod.Spec.NodeName)
		if err != nil {
			return "", err
		}
		pid, err := os.ReadFile(filepath.Join(root, "run/containerd/io.containerd.runtime.v2.task/k8s.io", id, "init.pid"))
		return filepath.Join(root, "proc", string(pid)), err
	}
	return "", fmt.Errorf("pod %s on node %s: container %s does not run", pod.Name, pod.Spec.NodeName, container)
}

// MountOn mounts a folder of this machine at a path of a real node, as an administrator mounts an export there. All
// nodes that mount a folder share its files.
func (c *Cluster) MountOn(node, folder, path string) error {
	if err := realnode.Mount(realNodeFolder(c.Dir(), node), folder, path); err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	return nil
}

// ListenOn listens in a real node's network namespace: at an address, "IP:port", of the network "tcp", or at an abstract
// socket of the network "unix". If the address is not a loopback address, the node gets it in addition to its own, and
// its pods reach it, too. Unlike Options.Reachable, it can differ from node to node, and be made at any time.
func (c *Cluster) ListenOn(node, network, address string) (listener net.Listener, err error) {
	err = c.inNetworkOf(node, func(place *realnode.Place) error {
		listener, err = place.Listen(network, address)
		return err
	})
	return listener, err
}

// ListenPacketOn is ListenOn for the network "udp".
func (c *Cluster) ListenPacketOn(node, network, address string) (conn net.PacketConn, err error) {
	err = c.inNetworkOf(node, func(place *realnode.Place) error {
		conn, err = place.ListenPacket(network, address)
		return err
	})
	return conn, err
}

func (c *Cluster) inNetworkOf(node string, do func(*realnode.Place) error) error {
	place, err := realnode.Find(realNodeFolder(c.Dir(), node))
	if err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	defer place.Close()
	if err := do(place); err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	return nil
}

func realNodeFolder(dir, name string) string { return filepath.Join(dir, realNodesFolder, name) }

// nodePrograms builds the programs of real nodes if necessary.
func nodePrograms(ctx context.Context, report func(tools.Progress)) (realnode.Programs, error) {
	kubelet, err := tools.Kubelet(ctx, report)
	if err != nil {
		return realnode.Programs{}, err
	}
	containerd, err := tools.Containerd(ctx, report)
	if err != nil {
		return realnode.Programs{}, err
	}
	own, err := tools.Programs(ctx, "./lab/cluster/realnode/pause")
	if err != nil {
		return realnode.Programs{}, err
	}
	return realnode.Programs{Kubelet: kubelet, Containerd: string(containerd), Pause: own.Path("pause")}, nil
}

// realNodes are the real nodes of a cluster.
type realNodes struct {
	job     assignment
	plane   *controlPlane
	network *realnode.Network
	proxy   *http.Server
	// services is where OLM connects to Services: see serveServices.
	services net.Listener
	nodes    map[string]*realnode.Node // running nodes by name
}

// connectRealNodes creates the network of the real nodes, and the proxy that the API server needs to reach it.
func connectRealNodes(job assignment, plane *controlPlane) (_ *realNodes, err error) {
	r := &realNodes{job: job, plane: plane, nodes: map[string]*realnode.Node{}}
	if r.network, err = realnode.NewNetwork(job.Options.RealNodes); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.network.Close()
		}
	}()
	// An abstract socket: the path of a file might be too long.
	plane.egressProxy = "@berth-egress-" + plane.address
	listener, err := net.Listen("unix", plane.egressProxy)
	if err != nil {
		return nil, err
	}
	r.proxy = &http.Server{Handler: r.network.Proxy()}
	go r.proxy.Serve(listener) // until stop
	if r.services, err = net.Listen("tcp", net.JoinHostPort(plane.address, "0")); err != nil {
		return nil, err
	}
	plane.serviceProxy = r.services.Addr().String()
	return r, nil
}

// start starts the nodes and waits until they are ready. If a node ends before that, it calls died.
func (r *realNodes) start(ctx context.Context, api client.Client, died func(error)) error {
	go serveServices(r.services, api, r.network.Dial) // until stop
	reachable := map[string]string{realnode.APIServer: r.plane.hostPort(r.plane.apiPort)}
	for at, to := range r.job.Options.Reachable {
		reachable[at] = to
	}
	for at, to := range reachable {
		if err := r.network.Forward(at, to); err != nil {
			return err
		}
	}
	images := realnode.Images{Programs: r.job.Options.Images, Archives: r.job.Options.ImageArchives}
	if err := r.network.ServeImages(images, r.job.NodePrograms.Pause); err != nil {
		return err
	}
	for i, place := range r.network.Places() {
		if err := r.startNode(ctx, RealNode(i), place, died); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for i := range r.network.Places() {
		if err := awaitWorker(ctx, api, RealNode(i)); err != nil {
			return err
		}
	}
	return nil
}

func (r *realNodes) startNode(ctx context.Context, name string, place *realnode.Place, died func(error)) error {
	config, err := r.plane.kubeconfig("https://"+realnode.APIServer, user{"system:node:" + name, []string{"system:nodes"}})
	if err != nil {
		return err
	}
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	node, err := realnode.Start(realnode.Options{
		Name: name, Dir: realNodeFolder(r.job.Dir, name), Logs: filepath.Join(r.job.Dir, logsFolder),
		Programs: r.job.NodePrograms, Place: place, Kubeconfig: kubeconfig, ClientCA: r.plane.pki.clients.cert,
	})
	if err != nil {
		return err
	}
	r.nodes[name] = node
	go func() {
		<-node.Ended()
		note("node %s ended: %v", name, node.Err())
		if ctx.Err() == nil {
			logs := filepath.Join(r.job.Dir, logsFolder, name)
			died(fmt.Errorf("node %s ended while the cluster started: %w\n%s\n%s\n%s", name, node.Err(),
				tailOfFile(logs+".log", 5), tailOfFile(logs+"-containerd.log", 5), tailOfFile(logs+"-kubelet.log", 15)))
		}
	}()
	return nil
}

// awaitWorker waits until a node is ready, and gives it the roles of a worker and a master, which a kubelet may not. A
// node whose machine was stopped keeps its roles.
func awaitWorker(ctx context.Context, api client.Client, name string) error {
	return Until(ctx, "node "+name, func(ctx context.Context) error {
		var node corev1.Node
		if err := api.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				if _, worker := node.Labels[rolePrefix+workerRole]; worker {
					return nil
				}
				before := node.DeepCopy()
				node.Labels[rolePrefix+workerRole], node.Labels[rolePrefix+masterRole] = "", ""
				return api.Patch(ctx, &node, client.MergeFrom(before))
			}
		}
		return fmt.Errorf("it is not ready; conditions: %v", node.Status.Conditions)
	})
}

// stop ends the nodes, and cleans up after them.
func (r *realNodes) stop() {
	var all sync.WaitGroup
	for _, node := range r.nodes {
		all.Go(node.Stop) // it takes seconds until the kernel has forgotten its control groups
	}
	all.Wait()
	r.proxy.Close()
	r.services.Close()
	r.network.Close()
}

// sweepRealNodes cleans up after the real nodes of a cluster whose keeper was killed.
func sweepRealNodes(dir string) {
	left, _ := os.ReadDir(filepath.Join(dir, realNodesFolder))
	for _, entry := range left {
		realnode.Sweep(realNodeFolder(dir, entry.Name()))
	}
}
