package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/lab/cluster/cloudcredential"
	"github.com/berth-csi/berth/lab/cluster/node"
)

// nodeEntry describes a process node.
type nodeEntry struct {
	name   string
	roles  []string
	taints []corev1.Taint
}

// nodeTable lists the process nodes of a cluster. As on OpenShift, the nodes of the control plane have a taint.
var nodeTable = []nodeEntry{
	{
		name:   "control-plane-0",
		roles:  []string{"control-plane", masterRole},
		taints: []corev1.Taint{{Key: rolePrefix + masterRole, Effect: corev1.TaintEffectNoSchedule}},
	},
	{
		name:   "control-plane-1",
		roles:  []string{"control-plane", masterRole},
		taints: []corev1.Taint{{Key: rolePrefix + masterRole, Effect: corev1.TaintEffectNoSchedule}},
	},
	{
		name:  "worker-0",
		roles: []string{workerRole},
	},
}

// workerRole is the role of nodes for all pods. If there are real nodes, they are the only ones with this role.
const workerRole = "worker"

// masterRole is the role of nodes for controllers. Process nodes have it only in clusters without real nodes.
const masterRole = "master"

// rolePrefix is the prefix of the labels with a node's roles.
const rolePrefix = "node-role.kubernetes.io/"

// startNodes starts the nodes and waits until they accept pods. They have their own user names, but more permissions
// than kubelets: the process node watches all Secrets and ConfigMaps, which the node authorizer would forbid.
func (k *keeper) startNodes(ctx context.Context) error {
	table := slices.Clone(nodeTable)
	if k.realNodes != nil {
		table = slices.DeleteFunc(table, func(entry nodeEntry) bool { return slices.Contains(entry.roles, workerRole) })
	}
	k.processNodes = map[string]*processNode{}
	for i, entry := range table {
		config, err := k.plane.restConfig(user{"system:node:" + entry.name, []string{"system:nodes", "system:masters"}})
		if err != nil {
			return err
		}
		options := node.Options{
			Name: entry.name, Labels: map[string]string{}, Taints: entry.taints,
			Dir: k.plane.path("nodes/" + entry.name), Images: k.job.Options.Images, Kept: k.job.Kept, Subnet: k.subnet.node(i),
		}
		for _, role := range entry.roles {
			options.Labels[rolePrefix+role] = ""
		}
		if k.realNodes != nil {
			// Pods for masters, and pods for every node, run on real nodes: see awaitWorker.
			delete(options.Labels, rolePrefix+masterRole)
			options.Labels[corev1.LabelOSStable] = "none"
		}
		n := &processNode{config: config, options: options}
		n.start(k)
		k.processNodes[entry.name] = n
	}
	for _, n := range k.processNodes {
		if err := n.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A processNode is a process node that an order can stop and start again.
type processNode struct {
	config  *rest.Config
	options node.Options
	ready   chan struct{} // closed when it accepts pods
	stop    func()        // stops it, and waits until it has stopped; nil while it is stopped
}

func (n *processNode) start(k *keeper) {
	life, end := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan struct{})
	options := n.options
	options.Ready = func() { close(ready) }
	k.host("node "+options.Name, func(ctx context.Context) error {
		defer close(ended)
		defer context.AfterFunc(ctx, end)()
		return node.Run(life, n.config, options)
	})
	n.ready, n.stop = ready, func() {
		end()
		<-ended
		n.stop = nil
	}
}

func (n *processNode) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	select {
	case <-n.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for node %s: %w", n.options.Name, context.Cause(ctx))
	}
}

// startCloudCredentials starts the substitute for the cloud credential operator.
func (k *keeper) startCloudCredentials(context.Context) error {
	config, err := k.plane.restConfig(cloudCredentialUser)
	if err != nil {
		return err
	}
	k.host("cloud-credential-operator", func(ctx context.Context) error { return cloudcredential.Run(ctx, config) })
	return nil
}
