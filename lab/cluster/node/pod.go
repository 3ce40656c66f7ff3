package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
)

// host is the node, as pods see it.
type host struct {
	dir       string
	images    map[string]string
	kept      []string // see Options
	addresses *addresses
	spawner   *spawner
	client    kubernetes.Interface
	from      objects
	recorder  record.EventRecorder
	// apiHost and apiPort are the API server's address for pods.
	apiHost, apiPort string
	// notify tells the API server about a change of a pod's status.
	notify func(*pod)
}

// pod is a pod on the node, from its creation to the end of its last process.
type pod struct {
	host    *host
	spec    *corev1.PodSpec
	dir     string
	volumes *volumes
	init    []*container
	main    []*container

	// stopping ends when the pod is to stop, killing when its grace period is over.
	stopping, killing   context.Context
	stopGently, stopNow context.CancelFunc
	// ended is closed when all processes of the pod have ended.
	ended chan struct{}
	// background waits for goroutines that outlive the function that started them.
	background sync.WaitGroup
	// dirty holds a token if the status has changed since the last report.
	dirty chan struct{}

	// mu guards the fields below, and the status of each container.
	mu           sync.Mutex
	object       *corev1.Pod
	ip           string
	startTime    metav1.Time
	volumesReady bool
	over         bool
	// changed is closed, and replaced, when something that the pod may wait for has changed.
	changed chan struct{}
}

// newPod returns a pod; run starts it.
func newPod(h *host, object *corev1.Pod) *pod {
	p := &pod{
		host:      h,
		spec:      &object.Spec,
		dir:       filepath.Join(h.dir, fmt.Sprintf("%s_%s_%s", object.Namespace, object.Name, object.UID)),
		ended:     make(chan struct{}),
		dirty:     make(chan struct{}, 1),
		changed:   make(chan struct{}),
		object:    object,
		startTime: metav1.Now().Rfc3339Copy(),
	}
	if object.Status.StartTime != nil {
		p.startTime = *object.Status.StartTime
	}
	p.volumes = newVolumes(filepath.Join(p.dir, "volumes"), h.from, h.client)
	p.stopping, p.stopGently = context.WithCancel(context.Background())
	p.killing, p.stopNow = context.WithCancel(context.Background())
	for i := range object.Spec.InitContainers {
		spec := &object.Spec.InitContainers[i]
		p.init = append(p.init, newContainer(p, spec, !isSidecar(spec), object.Status.InitContainerStatuses))
	}
	for i := range object.Spec.Containers {
		p.main = append(p.main, newContainer(p, &object.Spec.Containers[i], false, object.Status.ContainerStatuses))
	}
	return p
}

// run runs the pod until it has been stopped or has completed.
func (p *pod) run() {
	var reporting sync.WaitGroup
	reporting.Go(p.report)

	if p.takeAddress() && p.setUp() && p.runInit() {
		p.runMain()
	}
	p.stopGently() // Sidecars end with the last of the others.
	p.background.Wait()
	p.update(func() { p.over = true })
	p.cleanUp()
	close(p.ended)
	reporting.Wait()
}

// takeAddress assigns the pod its own address, or the node's in the host network.
func (p *pod) takeAddress() bool {
	if p.spec.HostNetwork {
		p.update(func() { p.ip = p.host.addresses.node() })
		return true
	}
	for {
		ip, err := p.host.addresses.take()
		if err == nil {
			p.update(func() { p.ip = ip })
			return true
		}
		p.event(corev1.EventTypeWarning, "FailedCreatePodSandBox", err.Error())
		if !p.pause(backoffMost, nil) {
			return false
		}
	}
}

// programs returns the containers with a program; the others are only reported as running.
func (p *pod) programs() []*container {
	return slices.DeleteFunc(slices.Concat(p.init, p.main), func(c *container) bool { return c.program == "" })
}

// setUp waits until the volumes of programs exist, and keeps them up to date from then on.
func (p *pod) setUp() bool {
	if len(p.programs()) > 0 {
		if err := os.MkdirAll(p.volumes.dir, 0o700); err != nil {
			p.event(corev1.EventTypeWarning, "FailedMount", err.Error())
			return false
		}
		ready := make(chan struct{})
		p.background.Go(func() { p.keepVolumes(ready) })
		select {
		case <-p.stopping.Done():
			return false
		case <-ready:
		}
	}
	p.update(func() { p.volumesReady = true })
	return true
}

// keepVolumes updates volumes when their objects change, and rotates tokens, until the pod stops. It closes ready
// when all volumes exist for the first time.
func (p *pod) keepVolumes(ready chan<- struct{}) {
	mounted := mountedVolumes(p.programs())
	var pause backoff
	for {
		changed := p.awaitChange()
		renewAt, err := p.volumes.sync(p.stopping, p.view(), mounted)
		var next <-chan time.Time
		switch {
		case p.stopping.Err() != nil:
			return
		case err != nil:
			p.event(corev1.EventTypeWarning, "FailedMount", err.Error())
			p.update(func() { p.explainWaiting(err) })
			next = time.After(max(pause.next(0), backoffFirst))
		default:
			pause = backoff{}
			if ready != nil {
				close(ready)
				ready = nil
			}
			if !renewAt.IsZero() {
				next = time.After(time.Until(renewAt))
			}
		}
		select {
		case <-p.stopping.Done():
			return
		case <-changed:
		case <-next:
		}
	}
}

// explainWaiting reports why containers that have not started yet are waiting.
func (p *pod) explainWaiting(err error) {
	for _, c := range slices.Concat(p.init, p.main) {
		if c.status.State.Waiting != nil && c.status.LastTerminationState.Terminated == nil {
			c.status.State = waitingState("ContainerCreating", err.Error())
		}
	}
}

// runInit runs the init containers in sequence. It returns false if the pod ends with them.
func (p *pod) runInit() bool {
	for _, c := range p.init {
		if isSidecar(c.spec) {
			p.background.Go(func() { c.run(corev1.RestartPolicyAlways) })
			select {
			case <-c.started:
				continue
			case <-p.stopping.Done():
				return false
			}
		}
		policy := p.spec.RestartPolicy
		if policy == corev1.RestartPolicyAlways {
			policy = corev1.RestartPolicyOnFailure
		}
		if !c.run(policy) {
			return false
		}
	}
	return true
}

// runMain runs the other containers concurrently and waits for their end.
func (p *pod) runMain() {
	var running sync.WaitGroup
	for _, c := range p.main {
		running.Go(func() { c.run(p.spec.RestartPolicy) })
	}
	running.Wait()
}

// stop asks all processes to end, and kills them when the grace period is over. It does not wait. It may be called
// again to shorten the grace period.
func (p *pod) stop(grace time.Duration) {
	if grace <= 0 {
		p.stopNow()
	} else {
		time.AfterFunc(grace, p.stopNow)
	}
	p.stopGently()
}

// cleanUp releases the pod's address and volumes. Its logs stay for inspection.
func (p *pod) cleanUp() {
	if !p.spec.HostNetwork {
		p.host.addresses.release(p.ip)
	}
	for _, c := range p.programs() {
		os.RemoveAll(c.root())
	}
	os.RemoveAll(p.volumes.dir)
}
