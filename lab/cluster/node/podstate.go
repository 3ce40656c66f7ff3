package node

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// replace stores the pod's changed object, whose labels and annotations volumes may show.
func (p *pod) replace(object *corev1.Pod) {
	p.mu.Lock()
	p.object = object
	p.mu.Unlock()
	p.notifyChange()
}

// notifyChange wakes everything in the pod that waits for an object.
func (p *pod) notifyChange() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pod) awaitChange() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// pause waits for this long, or for a change. It returns false if the pod is to stop.
func (p *pod) pause(d time.Duration, changed <-chan struct{}) bool {
	pausing, cancel := context.WithTimeout(p.stopping, d)
	defer cancel()
	select {
	case <-pausing.Done():
	case <-changed:
	}
	return p.stopping.Err() == nil
}

// update changes the state behind the pod's status, and schedules a report.
func (p *pod) update(change func()) {
	p.mu.Lock()
	change()
	p.mu.Unlock()
	select {
	case p.dirty <- struct{}{}:
	default:
	}
}

// report reports changes of the status in order, the last one after the pod's end.
func (p *pod) report() {
	for {
		select {
		case <-p.dirty:
			p.host.notify(p)
		case <-p.ended:
			p.host.notify(p)
			return
		}
	}
}

// view returns the pod's object with the current status.
func (p *pod) view() *corev1.Pod { return p.viewOf(p.current()) }

// viewOf puts the current status into a newer version of the pod's object.
func (p *pod) viewOf(object *corev1.Pod) *corev1.Pod {
	object = object.DeepCopy()
	p.mu.Lock()
	defer p.mu.Unlock()
	object.Status = podStatus(object, observation{
		hostIP:       p.host.addresses.node(),
		podIP:        p.ip,
		startTime:    p.startTime,
		volumesReady: p.volumesReady,
		ended:        p.over,
		init:         statuses(p.init),
		main:         statuses(p.main),
	}, metav1.Now().Rfc3339Copy())
	return object
}

// current returns the pod's object as the API server last showed it.
func (p *pod) current() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.object
}

func (p *pod) address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ip
}

func (p *pod) gracePeriod() time.Duration {
	object := p.current()
	for _, seconds := range []*int64{object.DeletionGracePeriodSeconds, object.Spec.TerminationGracePeriodSeconds} {
		if seconds != nil {
			return time.Duration(*seconds) * time.Second
		}
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

func (p *pod) event(kind, reason, message string) {
	p.host.recorder.Event(p.current(), kind, reason, message)
}

// container returns a container of the pod by its name.
func (p *pod) container(name string) *container {
	all := slices.Concat(p.init, p.main)
	i := slices.IndexFunc(all, func(c *container) bool { return c.spec.Name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

func statuses(containers []*container) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, c := range containers {
		all = append(all, *c.status.DeepCopy())
	}
	return all
}
