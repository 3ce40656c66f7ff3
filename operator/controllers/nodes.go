package controllers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-csi/berth/drivers/rollout"
)

// Nodes knows which nodes of the cluster are NotReady. It is an informer, too. Kubelets send their heartbeats as
// Leases, but also write the status of their node every five minutes, so a cluster of 5,000 nodes has some seventeen
// changes a second. The cache keeps a few bytes for each node, and a controller is triggered only when a node becomes
// ready or NotReady.
type Nodes struct{ informer coreinformers.NodeInformer }

// NewNodes returns the nodes that an informer with the transform TrimNodes shows.
func NewNodes(informer coreinformers.NodeInformer) *Nodes {
	informer.Informer() // the factory starts only informers that were requested
	return &Nodes{informer}
}

// TrimNodes returns the transform for the cache. The transform keeps the labels with the given keys, and whether the node is ready.
func TrimNodes(keys []string) cache.TransformFunc {
	return func(object any) (any, error) {
		node, ok := object.(*corev1.Node)
		if !ok {
			return object, nil
		}
		kept := map[string]string{}
		for _, key := range keys {
			if value, found := node.Labels[key]; found {
				kept[key] = value
			}
		}
		trimmed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: kept}}
		if rollout.IsReady(node) {
			trimmed.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}
		return trimmed, nil
	}
}

// NotReady returns the sorted names of the nodes that are NotReady and have the labels of the selector.
func (n *Nodes) NotReady(selector map[string]string) ([]string, error) {
	found, err := n.informer.Lister().List(labels.SelectorFromSet(selector))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, node := range found {
		if !rollout.IsReady(node) {
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// HasSynced reports whether the cache has all nodes.
func (n *Nodes) HasSynced() bool { return n.informer.Informer().HasSynced() }

// AddEventHandler adds a handler for nodes that become NotReady or Ready.
func (n *Nodes) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return n.informer.Informer().AddEventHandler(handlerOf(handler))
}

// handlerOf returns a handler for all events of nodes. It reports a node that becomes NotReady to the inner handler as
// added, and a node that becomes ready as deleted.
func handlerOf(handler cache.ResourceEventHandler) cache.ResourceEventHandler {
	return cache.FilteringResourceEventHandler{
		FilterFunc: func(object any) bool {
			node, ok := object.(*corev1.Node)
			return !ok || !rollout.IsReady(node) // an object of another type stands for a deletion that the watch missed
		},
		Handler: readinessChanges{handler},
	}
}

// readinessChanges drops updates: after filtering, they are updates of nodes that stay NotReady.
type readinessChanges struct{ cache.ResourceEventHandler }

func (readinessChanges) OnUpdate(_, _ any) {}
