package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-csi/berth/internal/listing"
)

// A health says whether a node's kubelet can end pods. Kubelets and kube-controller-manager write it; no tenant can.
type health int

const (
	healthy     health = iota
	notReady           // the kubelet says that the node cannot run pods, but may be able to end them
	unreachable        // the kubelet says nothing, or the node does not exist any more
)

// healthOf returns the health of a node, nil for one that does not exist.
func healthOf(node *corev1.Node) health {
	if node == nil {
		return unreachable
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		switch condition.Status {
		case corev1.ConditionTrue:
			return healthy
		case corev1.ConditionFalse:
			return notReady
		}
	}
	return unreachable
}

// A placedPod is a pod's namespace/name, and the name of the node that it is on. Only this is kept of a pod, because
// pods may be large.
type placedPod struct{ name, node string }

func place(p pod) placedPod {
	return placedPod{p.Metadata.Namespace + "/" + p.Metadata.Name, p.Spec.NodeName}
}

// overdue reports whether a pod should have ended by now: it is being deleted, and its grace period is over.
func overdue(p pod, now time.Time) bool {
	deleted := p.Metadata.DeletionTimestamp // this includes the grace period
	return deleted != nil && now.After(deleted.Time)
}

// lost reports whether a pod on a node with this health will probably never end: it is being deleted, but no kubelet
// reports that it has ended. A running kubelet gets the grace period to end it.
func lost(p pod, on health, now time.Time) bool {
	switch on {
	case unreachable:
		return p.Metadata.DeletionTimestamp != nil
	case notReady:
		return overdue(p, now)
	default:
		return false
	}
}

// nodes reads the cluster's nodes, each once and on demand.
type nodes struct {
	kube   kubernetes.Interface
	health map[string]health
}

func newNodes(kube kubernetes.Interface) *nodes { return &nodes{kube, map[string]health{}} }

// of returns the health of the node with this name. The name is "" for a pod without a node.
func (n *nodes) of(ctx context.Context, name string) (health, error) {
	known, ok := n.health[name]
	if ok || name == "" {
		return known, nil
	}
	node, err := n.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		node = nil
	case err != nil:
		return healthy, fmt.Errorf("reading node %s: %w", name, err)
	}
	n.health[name] = healthOf(node)
	return n.health[name], nil
}

// describe returns sorted descriptions of pods for messages. It reads nodes only for the first maxNamed pods, because
// messages name only these.
func (n *nodes) describe(ctx context.Context, pods []placedPod) ([]string, error) {
	slices.SortFunc(pods, func(a, b placedPod) int { return strings.Compare(a.name, b.name) })
	described := make([]string, len(pods))
	for i, p := range pods {
		described[i] = p.name
		if i >= maxNamed || p.node == "" {
			continue
		}
		on, err := n.of(ctx, p.node)
		if err != nil {
			return nil, err
		}
		described[i] += " on node " + p.node
		if on != healthy {
			described[i] += notReadyNote
		}
	}
	return described, nil
}

// notReadyNote follows the name of a node that is not Ready.
const notReadyNote = ", which is NotReady"

// remainingPods returns the remaining pods of a Deployment or DaemonSet, which may itself be deleted. It separates pods
// to wait for from pods to leave behind. The latter are lost or, if the removal is forced, overdue for any reason.
func (c *controller) remainingPods(ctx context.Context, workload *unstructured.Unstructured, nodes *nodes, forced bool) (awaited, left []placedPod, err error) {
	now := c.Clock.Now()
	err = c.eachPodOf(ctx, workload, func(p pod) error {
		behind := forced && overdue(p, now)
		if !behind && overdue(p, now) { // in a large cluster, reading the nodes of all pods would take long
			on, err := nodes.of(ctx, p.Spec.NodeName)
			if err != nil {
				return err
			}
			behind = lost(p, on, now)
		}
		if behind {
			left = append(left, place(p))
		} else {
			awaited = append(awaited, place(p))
		}
		return nil
	})
	return awaited, left, err
}

// eachPodOf calls do for each pod of a Deployment or DaemonSet.
func (c *controller) eachPodOf(ctx context.Context, workload *unstructured.Unstructured, do func(pod) error) error {
	selector, _, err := unstructured.NestedStringMap(workload.Object, "spec", "selector", "matchLabels")
	if err != nil {
		return err
	}
	list := listing.List{Resource: "pods", Namespace: workload.GetNamespace(), Labels: labels.SelectorFromSet(selector).String()}
	if err := listing.Each(ctx, c.Kube.CoreV1().RESTClient(), list, do); err != nil {
		return fmt.Errorf("looking for pods of %s %s: %w", workload.GetKind(), workload.GetName(), err)
	}
	return nil
}
