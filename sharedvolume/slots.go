package sharedvolume

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// turnTime is how long a turn lasts if the claim is not bound.
const slotTimeout = 10 * time.Second

// turnUse says what use a SharedVolume has for its turn.
type slotUse string

const (
	releaseSlot    slotUse = ""          // none, so another may have it
	awaitSlot slotUse = "await"     // it is in line for one
	bindWithSlot  slotUse = "hand over" // the binder has to bind its claim
)

// turns are rights to have a claim made and bound. Kubernetes' binder settles all claims of a cluster
// one after the other, first come, first served, and nothing overtakes what it has been handed. So each
// namespace hands it a few claims at a time, and the next only when one of them is bound: a claim of
// another namespace then waits for a few and not for thousands.
//
// A SharedVolume leaves when its turn has served, or can serve no longer. One whose claim is never
// bound loses its turn after turnTime.
type slots struct {
	limiter limiter // that a namespace begins at
	now  func() time.Time
	// wake is told of a SharedVolume whose turn comes after it has waited. It must not call back.
	requeue func(types.NamespacedName)

	mu         sync.Mutex
	namespaces map[string]*namespaceSlots
}

// namespaceTurns are those of one namespace, by the names of its SharedVolumes.
type namespaceSlots struct {
	limiter   limiter                     // how many may have a turn at a time
	held  map[string]*slot         // those that have one
	waiting   list.List                // those that wait for one, the first first
	positions map[string]*list.Element // their places in the line
}

// turn tells since when a SharedVolume has its turn, and its claim has been the binder's to bind.
type slot struct{ acquired, binding time.Time }

func newSlots() *slots {
	return &slots{limiter: limiter{limit: initialSlots}, now: time.Now, namespaces: map[string]*namespaceSlots{}}
}

// take tells whether a SharedVolume has a turn. If not, it is in line for one.
func (t *slots) acquire(key types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.namespaces[key.Namespace]
	if of == nil {
		of = &namespaceSlots{limiter: t.limiter, held: map[string]*slot{}, positions: map[string]*list.Element{}}
		t.namespaces[key.Namespace] = of
	}
	if its := of.held[key.Name]; its != nil {
		if t.remaining(its) > 0 {
			return true
		}
		delete(of.held, key.Name)
	}
	if of.positions[key.Name] == nil {
		of.positions[key.Name] = of.waiting.PushBack(key.Name)
	}
	t.assign(key.Namespace, key.Name)
	return of.held[key.Name] != nil
}

// handOver is told that a claim and its volume are made, and are the binder's to bind. It returns how
// long the SharedVolume may keep its turn for that; 0 is that it has none, or none any more.
func (t *slots) startBinding(key types.NamespacedName) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.namespaces[key.Namespace]
	if of == nil || of.held[key.Name] == nil {
		return 0
	}
	its := of.held[key.Name]
	if its.binding.IsZero() {
		its.binding = t.now()
	}
	left := t.remaining(its)
	if left == 0 {
		t.free(key)
	}
	return left
}

// leave ends the turn of a SharedVolume that waits for the binder no longer, or its waiting for a turn.
func (t *slots) release(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.namespaces[key.Namespace]
	if of == nil {
		return
	}
	if place := of.positions[key.Name]; place != nil {
		of.waiting.Remove(place)
		delete(of.positions, key.Name)
	}
	if its := of.held[key.Name]; its != nil && !its.binding.IsZero() {
		of.limiter.observe(t.now(), t.now().Sub(its.binding), of.waiting.Len() > 0)
	}
	t.free(key)
}

// end ends a turn.
func (t *slots) free(key types.NamespacedName) {
	of := t.namespaces[key.Namespace]
	delete(of.held, key.Name)
	t.assign(key.Namespace, "")
	if len(of.held) == 0 {
		delete(t.namespaces, key.Namespace)
	}
}

// advance gives the turns that are free to those who have waited longest. It tells them, but for the
// one that asks itself.
func (t *slots) assign(namespace, asking string) {
	of := t.namespaces[namespace]
	for len(of.held) < of.limiter.limit && of.waiting.Len() > 0 {
		name := of.waiting.Remove(of.waiting.Front()).(string)
		delete(of.positions, name)
		of.held[name] = &slot{acquired: t.now()}
		if name != asking {
			t.requeue(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
}

// left returns how much of a turn's time is left.
func (t *slots) remaining(its *slot) time.Duration { return max(0, slotTimeout-t.now().Sub(its.acquired)) }
