package cluster

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/test/cluster/node"
)

// nodeTable are the nodes of every cluster. As on OpenShift, only what tolerates their taint runs on
// those of the control plane.
var nodeTable = []struct {
	name   string
	roles  []string
	taints []corev1.Taint
}{
	{
		name:   "control-plane-0",
		roles:  []string{"control-plane", "master"},
		taints: []corev1.Taint{{Key: rolePrefix + "master", Effect: corev1.TaintEffectNoSchedule}},
	},
	{
		name:   "control-plane-1",
		roles:  []string{"control-plane", "master"},
		taints: []corev1.Taint{{Key: rolePrefix + "master", Effect: corev1.TaintEffectNoSchedule}},
	},
	{
		name:  "worker-0",
		roles: []string{"worker"},
	},
}

// rolePrefix starts the label that says a node's role.
const rolePrefix = "node-role.kubernetes.io/"

// nodes are the nodes that this process runs.
type nodes struct {
	end     context.CancelFunc
	running sync.WaitGroup
}

// bringNodes starts the nodes and waits until they take pods. They run until their end. As their
// users they have their own names, but rights that a kubelet has not: the process node watches all
// Secrets and ConfigMaps, which the node authorizer would refuse.
func (k *keeper) bringNodes(ctx context.Context) error {
	life, end := context.WithCancel(context.Background())
	k.nodes = &nodes{end: end}
	ready, failed := make(chan struct{}, len(nodeTable)), make(chan error, len(nodeTable))
	for i, entry := range nodeTable {
		config, err := k.plane.restConfig(user{"system:node:" + entry.name, []string{"system:nodes", "system:masters"}})
		if err != nil {
			return err
		}
		options := node.Options{
			Name: entry.name, Labels: map[string]string{}, Taints: entry.taints,
			Dir: k.plane.path("nodes/" + entry.name), Images: k.job.Options.Images, Subnet: k.subnet.node(i),
			Ready: func() { ready <- struct{}{} },
		}
		for _, role := range entry.roles {
			options.Labels[rolePrefix+role] = ""
		}
		k.nodes.running.Go(func() {
			err := node.Run(life, config, options)
			if life.Err() == nil {
				note("node %s ended: %v", entry.name, err)
				failed <- fmt.Errorf("node %s: %w", entry.name, err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for range nodeTable {
		select {
		case <-ready:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("wait for the nodes: %w", context.Cause(ctx))
		}
	}
	return nil
}

// stop ends the nodes and waits until their pods ended. It does nothing if there are none.
func (n *nodes) stop() {
	if n == nil {
		return
	}
	n.end()
	n.running.Wait()
}
