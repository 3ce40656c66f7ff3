package sharedvolume

import (
	"container/list"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// slotTimeout is how long a SharedVolume keeps its slot if its claim is not bound.
const slotTimeout = 10 * time.Second

// slotUse is the purpose of the slot that a SharedVolume waits for.
type slotUse string

const (
	releaseSlot  slotUse = ""      // nothing: another SharedVolume may have it
	awaitSlot    slotUse = "await" // it waits for a slot
	bindWithSlot slotUse = "bind"  // the binder must bind its claim
)

// slots limit how many claims of each namespace are in flight, that is, being created and bound. Kubernetes' binder handles
// the claims of the whole cluster one after the other, in the order of their creation. So each namespace has only a few
// claims in flight, and creates the next one when one of them is bound: the claim of another namespace then waits for a few
// claims, and not for thousands.
//
// A SharedVolume releases its slot when its claim is bound, or cannot be. If the claim is never bound, the slot is taken away
// after slotTimeout.
type slots struct {
	limiter limiter // the initial state for each namespace
	now     func() time.Time
	// requeue requeues a SharedVolume that gets a slot after it has waited for one. It must not call back.
	requeue func(types.NamespacedName)

	mu         sync.Mutex
	namespaces map[string]*namespaceSlots
}

// namespaceSlots are the slots of one namespace, by the names of its SharedVolumes.
type namespaceSlots struct {
	limiter   limiter
	held      map[string]*slot
	waiting   list.List                // the waiting names, the longest waiting first
	positions map[string]*list.Element // by name, in waiting
}

// slot is the right to have a claim in flight: since when a SharedVolume has it, and since when the binder can bind the claim.
type slot struct{ acquired, binding time.Time }

func newSlots() *slots {
	return &slots{limiter: limiter{limit: initialSlots}, now: time.Now, namespaces: map[string]*namespaceSlots{}}
}

// acquire reports whether a SharedVolume holds a slot. If it does not, it waits for one from now on.
func (s *slots) acquire(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.namespaces[key.Namespace]
	if of == nil {
		of = &namespaceSlots{limiter: s.limiter, held: map[string]*slot{}, positions: map[string]*list.Element{}}
		s.namespaces[key.Namespace] = of
	}
	if held := of.held[key.Name]; held != nil {
		if s.remaining(held) > 0 {
			return true
		}
		delete(of.held, key.Name)
	}
	if of.positions[key.Name] == nil {
		of.positions[key.Name] = of.waiting.PushBack(key.Name)
	}
	s.assign(key.Namespace, key.Name)
	return of.held[key.Name] != nil
}

// startBinding records that claim and volume exist and that the binder can bind them. It returns how long the SharedVolume
// may keep its slot for that; 0 means that it holds none, or no longer.
func (s *slots) startBinding(key types.NamespacedName) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.namespaces[key.Namespace]
	if of == nil || of.held[key.Name] == nil {
		return 0
	}
	held := of.held[key.Name]
	if held.binding.IsZero() {
		held.binding = s.now()
	}
	remaining := s.remaining(held)
	if remaining == 0 {
		s.free(key)
	}
	return remaining
}

// release releases the slot of a SharedVolume that no longer needs the binder, or stops it from waiting for one.
func (s *slots) release(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.namespaces[key.Namespace]
	if of == nil {
		return
	}
	if position := of.positions[key.Name]; position != nil {
		of.waiting.Remove(position)
		delete(of.positions, key.Name)
	}
	if held := of.held[key.Name]; held != nil && !held.binding.IsZero() {
		of.limiter.observe(s.now(), s.now().Sub(held.binding), of.waiting.Len() > 0)
	}
	s.free(key)
}

// free frees a slot, if the SharedVolume holds one, and assigns it to the next.
func (s *slots) free(key types.NamespacedName) {
	of := s.namespaces[key.Namespace]
	delete(of.held, key.Name)
	s.assign(key.Namespace, "")
	if len(of.held) == 0 {
		delete(s.namespaces, key.Namespace)
	}
}

// assign assigns free slots to the SharedVolumes that have waited longest, and requeues them except for the asking one.
func (s *slots) assign(namespace, asking string) {
	of := s.namespaces[namespace]
	for len(of.held) < of.limiter.limit && of.waiting.Len() > 0 {
		name := of.waiting.Remove(of.waiting.Front()).(string)
		delete(of.positions, name)
		of.held[name] = &slot{acquired: s.now()}
		if name != asking {
			s.requeue(types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
}

// remaining returns how long a slot is still held.
func (s *slots) remaining(held *slot) time.Duration {
	return max(0, slotTimeout-s.now().Sub(held.acquired))
}
