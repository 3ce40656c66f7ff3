// Package cluster is a real OpenShift-like cluster on this machine, for tests and demonstrations.
//
// It is etcd, kube-apiserver, kube-controller-manager and kube-scheduler as they are released, with
// RBAC, real service account tokens, an audit log, the API types of OpenShift and the objects that
// every OpenShift has; nodes that run pods as local processes; and the Operator Lifecycle Manager,
// if asked for. All of it listens on loopback addresses of its own and lives in one folder.
//
// A process of its own, the keeper, owns a cluster. It is the program that asked for the cluster,
// started once more, and it ends everything it started as soon as that program ends, in whatever
// way. Therefore a program that uses this package calls Main (a test) or Init first of all.
//
// It needs Linux, whose whole network 127.0.0.0/8 is loopback and whose kernel ends orphans.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster/node"
	"github.com/berth-csi/berth/test/cluster/tools"
)

// Options say what a cluster has beyond the control plane.
type Options struct {
	// Name tells clusters that are otherwise alike apart: tests that ask for a shared one by different
	// names get different ones.
	Name string `json:"name,omitempty"`
	// OLM starts the Operator Lifecycle Manager.
	OLM bool `json:"olm,omitempty"`
	// Images maps image repositories, without tag or digest, to programs. A container of such an
	// image is run by its node as a local process of that program; any other is only said to run.
	Images map[string]string `json:"images,omitempty"`
	// Durable makes etcd wait for the disk at each write, as a real one does. Benchmarks need that.
	Durable bool `json:"durable,omitempty"`
	// ManagerQPS is how many requests a second each controller of the controller manager may make, for
	// instance the one that binds claims; 0 is as many as OpenShift allows. A benchmark lifts the limit to
	// see what lies behind it.
	ManagerQPS int `json:"managerQPS,omitempty"`
}

// Cluster is a cluster that is up.
type Cluster struct {
	state  state
	config *rest.Config
	client client.Client
	// started is set if this process started the cluster, and ends it.
	started *startedKeeper
}

// Init must be called at the beginning of main by every program that starts a cluster: the program
// is started again to be the cluster's keeper, or one of its pods, and then Init does not return.
func Init() {
	node.Launcher()
	keepIfAsked()
}

// ErrNotRunning is returned by Find and Stop if there is no cluster.
var ErrNotRunning = errors.New("no cluster is running")

// Up starts a cluster in the folder dir that goes on after this process ended, until Stop. report,
// which may be nil, hears how it gets on. If ctx ends before it is ready, nothing of it stays.
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

// Find returns the cluster that runs in a folder. The error is ErrNotRunning if none does, or if it
// is not ready yet.
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

// Stop ends the cluster in a folder, waits until nothing of it runs, and removes the folder. What a
// cluster that died left behind is removed as well. The error is ErrNotRunning if there was none.
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
	return os.RemoveAll(dir)
}

// open connects to a cluster that is ready.
func open(s state) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.Dir, adminKubeconfig))
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // a test is not to be slowed down by its own client
	config.WarningHandler = rest.NoWarnings{}
	api, err := newClient(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{state: s, config: config, client: api}, nil
}

// Config returns a client configuration of the administrator. It is the caller's own copy.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client returns a client of the administrator. It knows the types of Kubernetes, OpenShift and
// OLM; others can be read and written as unstructured objects.
func (c *Cluster) Client() client.Client { return c.client }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.path(adminKubeconfig) }

// Dir returns the folder that holds everything of the cluster.
func (c *Cluster) Dir() string { return c.state.Dir }

// Kubectl returns a command that runs kubectl as the administrator.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Tools().Path("kubectl"), args...)
	// Its cache of what the API server serves goes by address, and another cluster may get the same.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "KUBECACHEDIR="+c.path("kubectl-cache"))
	return cmd
}

// Logs returns the folder that holds a log for each program of the cluster.
func (c *Cluster) Logs() string { return c.path(logsFolder) }

func (c *Cluster) path(name string) string { return filepath.Join(c.state.Dir, name) }

// Tools returns the folder with the programs that match the cluster, such as kubectl and opm.
func (c *Cluster) Tools() tools.Dir { return c.state.Tools }
