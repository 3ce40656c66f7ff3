// Package cluster runs a real OpenShift-like cluster on this machine, for tests and demonstrations.
//
// It consists of the released etcd, kube-apiserver, kube-controller-manager and kube-scheduler, with RBAC, real
// service account tokens, an audit log, OpenShift's API types and the objects of every OpenShift cluster; nodes that
// run pods as local processes; and optionally real nodes and the Operator Lifecycle Manager. All of it listens on its
// own loopback addresses, or in network namespaces, and keeps its files in one folder.
//
// A separate process, the keeper, owns a cluster. It is the program that requested the cluster, started once more. The keeper stops
// everything when the first process ends, even if that process is killed. Therefore a program that uses this package must first call Main
// (a test) or Init.
//
// The package needs Linux, where all of 127.0.0.0/8 is loopback and the kernel can kill orphans.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster/node"
	"github.com/berth-csi/berth/lab/cluster/realnode"
	"github.com/berth-csi/berth/lab/cluster/tools"
)

// Options configure a cluster beyond its control plane.
type Options struct {
	// Name distinguishes clusters with otherwise equal options: tests that request shared clusters with different
	// names get different ones.
	Name string `json:"name,omitempty"`
	// OLM starts the Operator Lifecycle Manager.
	OLM bool `json:"olm,omitempty"`
	// OPMImage is the image that OLM uses to serve catalogs after extracting their content; OLM's own if it is empty.
	OPMImage string `json:"opmImage,omitempty"`
	// Images maps image repositories, without tag or digest, to programs. A node runs a container with such an image as a local process of
	// that program, and only reports any other container as running.
	Images map[string]string `json:"images,omitempty"`
	// RealNodes is the number of workers that are real nodes, with a kubelet and containers: see package realnode. The real nodes are
	// masters, too, as in a small cluster. The process nodes keep the role control-plane, and DaemonSets for Linux do not select them. If
	// RealNodes is 0, there is one worker, and it is a process node. A real node can pull only the images in ImageArchives and in Images. An
	// image in Images holds only the program, in /usr/bin.
	RealNodes int `json:"realNodes,omitempty"`
	// ImageArchives maps image repositories, without tag or digest, to whole images: files as "docker save" writes
	// them, or folders with an OCI layout. Process nodes only report their containers as running.
	ImageArchives map[string]string `json:"imageArchives,omitempty"`
	// Reachable maps addresses, "IP:port", where programs on real nodes expect a server, such as a cloud's metadata
	// service, to the addresses of servers on this machine. Programs on real nodes reach nothing else on this machine.
	Reachable map[string]string `json:"reachable,omitempty"`
	// Durable makes etcd sync each write to disk, as in a real cluster. Benchmarks need that.
	Durable bool `json:"durable,omitempty"`
	// ManagerQPS limits the requests per second of each controller in the controller manager, such as the one that binds
	// claims. 0 means OpenShift's limit. A benchmark raises it to find other limits of the throughput.
	ManagerQPS int `json:"managerQPS,omitempty"`
}

// Cluster is a running cluster.
type Cluster struct {
	state  state
	config *rest.Config
	client client.Client
	// started is set if this process started the cluster and must stop it.
	started *startedKeeper
	audit   *auditTrail
}

// Init must be called at the beginning of main by every program that starts a cluster. The program is started again
// as the cluster's keeper or as one of its pods; then Init does not return.
func Init() {
	syscall.Umask(0o022) // other users' processes, such as pods, read some of the files
	node.Launcher()
	realnode.Init()
	keepIfAsked()
}

// Find and Stop return ErrNotRunning if no cluster runs.
var ErrNotRunning = errors.New("no cluster is running")

// Up starts a cluster in the folder dir that keeps running after this process, until Stop. report, which may be nil,
// is called with the progress. If ctx ends before the cluster is ready, everything is removed.
func Up(ctx context.Context, dir string, options Options, report func(tools.Progress)) (*Cluster, error) {
	c, err := launch(ctx, dir, options, report)
	if err != nil {
		return nil, err
	}
	if err := c.started.detach(); err != nil {
		return nil, errors.Join(err, c.started.end())
	}
	c.started = nil
	return c, nil
}

// Find returns the cluster that runs in a folder. The error is ErrNotRunning if none runs, or if it is not ready yet.
func Find(dir string) (*Cluster, error) {
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNotRunning)
	}
	if err != nil {
		return nil, err
	}
	if !s.Ready || !s.Keeper.alive() {
		return nil, fmt.Errorf("%s: %w", dir, ErrNotRunning)
	}
	return open(s)
}

// Stop stops the cluster in a folder, waits until all of its processes have ended, and removes the folder. It also
// removes the remains of a cluster that crashed. The error is ErrNotRunning if there was none.
func Stop(ctx context.Context, dir string) error {
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", dir, ErrNotRunning)
	}
	if err != nil {
		return err
	}
	if err := s.Keeper.terminate(ctx); err != nil {
		return fmt.Errorf("stop the cluster in %s: %w", dir, err)
	}
	sweepRealNodes(dir)
	return os.RemoveAll(dir)
}

// open connects to a cluster that is ready.
func open(s state) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.Dir, adminKubeconfig))
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the client must not slow down a test
	config.WarningHandler = rest.NoWarnings{}
	api, err := newClient(config)
	if err != nil {
		return nil, err
	}
	c := &Cluster{state: s, config: config, client: api}
	c.audit = newAuditTrail(c.AuditLog())
	return c, nil
}

// Outdated reports whether the program that keeps the cluster was rebuilt or deleted after it started the cluster. If so, another version
// of the project may have started the cluster.
func (c *Cluster) Outdated() bool {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.state.Keeper.PID))
	return err == nil && strings.HasSuffix(program, " (deleted)")
}

// Config returns a copy of the administrator's client configuration.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client returns the administrator's client. It knows the types of Kubernetes, OpenShift and OLM; other objects have
// to be unstructured.
func (c *Cluster) Client() client.Client { return c.client }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.path(adminKubeconfig) }

// Dir returns the folder with all files of the cluster.
func (c *Cluster) Dir() string { return c.state.Dir }

// Kubectl returns a command that runs kubectl as the administrator.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Tools().Path("kubectl"), args...)
	// kubectl caches discovery by address, which another cluster may get later.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "KUBECACHEDIR="+c.path("kubectl-cache"))
	return cmd
}

// Logs returns the folder with a log for each program of the cluster.
func (c *Cluster) Logs() string { return c.path(logsFolder) }

func (c *Cluster) path(name string) string { return filepath.Join(c.state.Dir, name) }

// Tools returns the folder with programs that match the cluster's version, such as kubectl and opm.
func (c *Cluster) Tools() tools.Dir { return c.state.Tools }
