package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// order is a line of JSON that the process that started a keeper writes to its standard input: an operation on the
// cluster. The keeper answers each with a message.
type order struct {
	Do string `json:"do"` // one of orders
	// Node is the name of a node.
	Node string `json:"node,omitempty"`
	// File is the path of a backup of etcd.
	File string `json:"file,omitempty"`
	// Etcd has the programs that make a backup and restore it.
	Etcd tools.Dir `json:"etcd,omitempty"`
}

// orders are all that a keeper obeys, by name.
var orders = map[string]func(*keeper, context.Context, order) error{
	"stop-node":           func(k *keeper, _ context.Context, o order) error { return k.stopNode(o.Node) },
	"start-node":          func(k *keeper, ctx context.Context, o order) error { return k.startNode(ctx, o.Node) },
	"back-up":             (*keeper).backUp,
	"restore":             (*keeper).restore,
	"renew-keys":          func(k *keeper, ctx context.Context, _ order) error { return k.renewKeys(ctx) },
	"forget-keys":         func(k *keeper, ctx context.Context, _ order) error { return k.forgetKeys(ctx) },
	"restart-controllers": func(k *keeper, ctx context.Context, _ order) error { return k.restartControllerManager(ctx) },
}

// StopNode ends a real node like a machine that loses its power, with all of its files, and a process node like one that is shut down. The
// Node object stays. Only the process that started the cluster can do that, and what the methods below do.
func (c *Cluster) StopNode(name string) error { return c.order(order{Do: "stop-node", Node: name}) }

// StartNode starts a machine in the place of a node that was stopped, and waits until the node is ready. It has the
// node's name and addresses, and existing listeners there stay open, but it has none of a real node's files.
func (c *Cluster) StartNode(name string) error { return c.order(order{Do: "start-node", Node: name}) }

// BackUp writes a snapshot of etcd to a file, which must not exist.
func (c *Cluster) BackUp(ctx context.Context, file string) error {
	programs, err := tools.Etcd(ctx, nil)
	if err != nil {
		return err
	}
	return c.order(order{Do: "back-up", File: file, Etcd: programs})
}

// Restore restores etcd from a snapshot, as OpenShift's cluster-restore.sh does: the API server and etcd stop, etcd gets
// the data, with a revision that is far above all that it ever had, and both start. Everything else runs on meanwhile.
func (c *Cluster) Restore(ctx context.Context, file string) error {
	programs, err := tools.Etcd(ctx, nil)
	if err != nil {
		return err
	}
	return c.order(order{Do: "restore", File: file, Etcd: programs})
}

// RenewKeys restarts the API server with a new certificate and a new key for the tokens of service accounts. It still
// trusts tokens of the former key, until ForgetKeys.
func (c *Cluster) RenewKeys() error { return c.order(order{Do: "renew-keys"}) }

// ForgetKeys restarts the API server so that it refuses tokens that were signed before RenewKeys.
func (c *Cluster) ForgetKeys() error { return c.order(order{Do: "forget-keys"}) }

// RestartControllers restarts kube-controller-manager. Its controllers lose their in-memory state, such as the nodes
// that the Attach/Detach controller manages.
func (c *Cluster) RestartControllers() error { return c.order(order{Do: "restart-controllers"}) }

func (c *Cluster) order(o order) error {
	if c.started == nil {
		return fmt.Errorf("%s: this process has not started the cluster in %s", o.Do, c.Dir())
	}
	if err := c.started.obey(o); err != nil {
		return fmt.Errorf("%s: %w", o.Do, err)
	}
	return nil
}

// obey carries out an order. Orders are obeyed one after the other, and none once the cluster ends.
func (k *keeper) obey(ctx context.Context, line string) error {
	k.obeying.Lock()
	defer k.obeying.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var o order
	if err := json.Unmarshal([]byte(line), &o); err != nil {
		return fmt.Errorf("read the order %q: %w", line, err)
	}
	do, known := orders[o.Do]
	if !known {
		return fmt.Errorf("there is no order %q", o.Do)
	}
	note("order: %s %s%s", o.Do, o.Node, o.File)
	return do(k, ctx, o)
}

func (k *keeper) stopNode(name string) error {
	if n := k.processNodes[name]; n != nil && n.stop != nil {
		n.stop()
		return nil
	}
	if k.realNodes == nil || k.realNodes.nodes[name] == nil {
		return fmt.Errorf("no node %q runs", name)
	}
	k.realNodes.nodes[name].Stop()
	delete(k.realNodes.nodes, name)
	return nil
}

func (k *keeper) startNode(ctx context.Context, name string) error {
	if n := k.processNodes[name]; n != nil && n.stop == nil {
		n.start(k)
		return n.awaitReady(ctx)
	}
	if k.realNodes == nil || k.realNodes.nodes[name] != nil {
		return fmt.Errorf("node %q runs, or the cluster has none of that name", name)
	}
	for i, place := range k.realNodes.network.Places() {
		if RealNode(i) != name {
			continue
		}
		if err := k.realNodes.startNode(ctx, name, place, func(err error) { note("%v", err) }); err != nil {
			return err
		}
		config, err := k.plane.restConfig(adminUser)
		if err != nil {
			return err
		}
		api, err := newClient(config)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, readyLimit)
		defer cancel()
		return awaitWorker(ctx, api, name)
	}
	return fmt.Errorf("there is no place for a real node %q", name)
}

func (k *keeper) backUp(ctx context.Context, o order) error {
	return runTool(ctx, o.Etcd.Path("etcdctl"), "--endpoints="+k.plane.etcdURL(), "snapshot", "save", o.File)
}

// revisionBump is by how much revisions grow with a restore, as on OpenShift. Clients that have seen lost revisions
// find that theirs is too old, and list again.
const revisionBump = "1000000000"

func (k *keeper) restore(ctx context.Context, o order) error {
	k.processes.stop("kube-apiserver")
	k.processes.stop("etcd")
	data := k.plane.etcdData()
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if err := runTool(ctx, o.Etcd.Path("etcdutl"), append([]string{
		"snapshot", "restore", o.File, "--data-dir=" + data, "--bump-revision=" + revisionBump, "--mark-compacted",
	}, k.plane.etcdMember()...)...); err != nil {
		return err
	}
	return k.startAPIServer(ctx)
}

func (k *keeper) renewKeys(ctx context.Context) error {
	if err := k.plane.renewKeys(); err != nil {
		return err
	}
	return k.restartAPIServer(ctx)
}

func (k *keeper) forgetKeys(ctx context.Context) error {
	k.plane.pki.formerServiceAccounts = nil
	if err := k.plane.writeTrustedKeys(); err != nil {
		return err
	}
	return k.restartAPIServer(ctx)
}

func (k *keeper) restartAPIServer(ctx context.Context) error {
	k.processes.stop("kube-apiserver")
	if err := k.run(k.plane.apiServer()); err != nil {
		return err
	}
	return k.plane.awaitHealthy(ctx, k.plane.apiPort, "/readyz")
}

func (k *keeper) restartControllerManager(ctx context.Context) error {
	k.processes.stop("kube-controller-manager")
	if err := k.run(k.plane.controllerManager()); err != nil {
		return err
	}
	return k.plane.awaitHealthy(ctx, k.plane.managerPort, "/healthz")
}

// renewKeys writes a new serving certificate, and a new key for tokens beside the former ones.
func (c *controlPlane) renewKeys() error {
	serving, err := c.pki.server(c.address)
	if err != nil {
		return err
	}
	key, err := newTokenKey()
	if err != nil {
		return err
	}
	c.pki.formerServiceAccounts = slices.Concat(c.pki.serviceAccounts, c.pki.formerServiceAccounts)
	c.pki.serviceAccounts = key
	return errors.Join(serving.write(c.path("pki"), "serving"), os.WriteFile(c.pkiPath(tokenKey), key, 0o600), c.writeTrustedKeys())
}

func (c *controlPlane) writeTrustedKeys() error {
	return os.WriteFile(c.pkiPath(trustedTokenKeys), slices.Concat(c.pki.serviceAccounts, c.pki.formerServiceAccounts), 0o600)
}

// runTool runs a program. The error has its output.
func runTool(ctx context.Context, path string, args ...string) error {
	if output, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w\n%s", filepath.Base(path), args, err, output)
	}
	return nil
}
