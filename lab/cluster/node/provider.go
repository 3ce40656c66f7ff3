package node

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// provider has the pods of the node. The pod controller tells it which pods the API server wants, and it tells the
// pod controller their status.
type provider struct {
	host   *host
	lister corelisters.PodLister
	// running waits for the end of every pod that was ever started.
	running sync.WaitGroup

	mu     sync.Mutex
	pods   map[string]*pod // by namespace/name
	closed bool
	tell   func(*corev1.Pod)
}

func newProvider(h *host, lister corelisters.PodLister) *provider {
	p := &provider{host: h, lister: lister, pods: map[string]*pod{}}
	h.notify = p.notify
	return p
}

// CreatePod starts the pod. It reports later failures in the status and not as errors, because the pod controller
// gives up after a number of errors.
func (p *provider) CreatePod(_ context.Context, object *corev1.Pod) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if previous := p.pods[key(object)]; previous != nil {
		previous.stop(goneGrace)
	}
	started := newPod(p.host, object)
	p.pods[key(object)] = started
	p.running.Go(started.run)
	return nil
}

// UpdatePod stores changed labels and annotations, which volumes of the pod may show.
func (p *provider) UpdatePod(_ context.Context, object *corev1.Pod) error {
	if known := p.find(object.Namespace, object.Name); known != nil {
		known.replace(object)
	}
	return nil
}

// DeletePod asks the pod to stop. The pod's status shows the pod controller when the pod has ended.
func (p *provider) DeletePod(_ context.Context, object *corev1.Pod) error {
	known := p.find(object.Namespace, object.Name)
	if known == nil || known.current().UID != object.UID {
		return errdefs.NotFoundf("pod %s is not on this node", key(object))
	}
	known.replace(object)
	known.stop(known.gracePeriod())
	return nil
}

// GetPod returns nothing if the API server has another pod with the same name: the pod controller would mistake the
// old pod for the new one.
func (p *provider) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	known := p.find(namespace, name)
	if known == nil {
		return nil, errdefs.NotFoundf("pod %s/%s is not on this node", namespace, name)
	}
	if wanted, err := p.lister.Pods(namespace).Get(name); err == nil && wanted.UID != known.current().UID {
		return nil, errdefs.NotFoundf("pod %s/%s is not the one on this node", namespace, name)
	}
	return known.view(), nil
}

func (p *provider) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	object, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &object.Status, nil
}

func (p *provider) GetPods(context.Context) ([]*corev1.Pod, error) {
	var objects []*corev1.Pod
	for _, known := range p.all() {
		objects = append(objects, known.view())
	}
	return objects, nil
}

// NotifyPods sets the function that receives changes of pods' statuses.
func (p *provider) NotifyPods(_ context.Context, tell func(*corev1.Pod)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell = tell
}

// notify reports a pod's status to the pod controller, in the latest version of the pod's object from the API server.
func (p *provider) notify(changed *pod) {
	object := changed.current()
	latest, err := p.lister.Pods(object.Namespace).Get(object.Name)
	if err != nil || latest.UID != object.UID {
		return // Nobody listens any more.
	}
	p.mu.Lock()
	tell := p.tell
	p.mu.Unlock()
	if tell != nil {
		tell(changed.viewOf(latest))
	}
}

// goneGrace is the grace period for processes of a pod whose object is already gone.
const goneGrace = 2 * time.Second

// watchPods handles events that the pod controller ignores: an object is gone for good, or somebody considered a pod
// lost, as happens when the machine was asleep.
func (p *provider) watchPods() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, latest any) {
			object := latest.(*corev1.Pod)
			if known := p.find(object.Namespace, object.Name); known != nil && known.current().UID == object.UID && !isReported(known.viewOf(object), object) {
				known.update(func() {})
			}
		},
		DeleteFunc: func(last any) {
			if unknown, ok := last.(cache.DeletedFinalStateUnknown); ok {
				last = unknown.Obj
			}
			p.forget(last.(*corev1.Pod))
		},
	}
}

// isReported reports whether the API server has the pod's current readiness.
func isReported(seen, reported *corev1.Pod) bool {
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		a, b := findCondition(seen.Status.Conditions, kind), findCondition(reported.Status.Conditions, kind)
		if b != nil && a.Status != b.Status {
			return false
		}
	}
	return true
}

// forget stops a pod whose object is gone.
func (p *provider) forget(object *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.pods[key(object)]; known != nil && known.current().UID == object.UID {
		known.stop(goneGrace)
		delete(p.pods, key(object))
	}
}

// watchObjects wakes the pods in the namespace of each ConfigMap or Secret that changes: a pod may show the object or wait for it.
func (p *provider) watchObjects() cache.ResourceEventHandler {
	wake := func(changed any) {
		name, err := cache.DeletionHandlingObjectToName(changed)
		if err != nil {
			return
		}
		for _, known := range p.all() {
			if known.current().Namespace == name.Namespace {
				known.notifyChange()
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    wake,
		UpdateFunc: func(_, latest any) { wake(latest) },
		DeleteFunc: wake,
	}
}

// close stops all pods, rejects new ones, and returns when the last process has ended. No pod gets more than the
// grace period.
func (p *provider) close(grace time.Duration) {
	p.mu.Lock()
	p.closed = true
	p.tell = nil // The API server may already be gone.
	p.mu.Unlock()
	for _, known := range p.all() {
		known.stop(min(grace, known.gracePeriod()))
	}
	p.running.Wait()
}

func (p *provider) find(namespace, name string) *pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods[namespace+"/"+name]
}

func (p *provider) all() []*pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.pods))
}

func key(object *corev1.Pod) string { return object.Namespace + "/" + object.Name }
