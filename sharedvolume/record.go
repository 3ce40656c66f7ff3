package sharedvolume

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	polling "k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// slotTimeout is how long a SharedVolume keeps its slot if its claim is not bound.
const slotTimeout = 10 * time.Second

// slotUse says what a SharedVolume needs an in-flight slot for while it waits.
type slotUse string

const (
	releaseSlot  slotUse = ""      // for nothing: another SharedVolume may have its slot
	awaitSlot    slotUse = "await" // it has no slot, and waits for one
	bindWithSlot slotUse = "bind"  // for its claim, which the binder must bind
)

// records hold what the controller remembers about each SharedVolume from one pass to the next.
//
// They also limit how many claims of each namespace are in flight, that is, being created and bound. Kubernetes' binder
// handles the claims of the whole cluster one after the other, in the order of their creation. So each namespace has only
// a few claims in flight, and creates the next one when one of them is bound: the claim of another namespace then waits
// for a few claims, and not for thousands.
type records struct {
	limiter limiter // the initial state for each namespace
	now     func() time.Time
	// requeue requeues a SharedVolume that gets a slot after it has waited for one. It must not call back.
	requeue func(types.NamespacedName)

	mu         sync.Mutex
	all        map[types.NamespacedName]*record
	namespaces map[string]*namespaceSlots
	ungranted  int // how many have no grant
}

// record holds everything that the controller remembers about one SharedVolume.
type record struct {
	key types.NamespacedName

	// One worker at a time reconciles a SharedVolume, and no other uses these fields.

	// writes are the last writes about the SharedVolume that the caches do not show yet. Caches lag behind by some
	// milliseconds; a decision based on a stale cache would repeat the write.
	writes writes
	// uncertain is true if a request about the SharedVolume failed. The API server may have performed it nevertheless, and
	// the caches may not show that yet, so the next pass reads from the API server.
	uncertain bool
	backoff   polling.Backoff

	// These are read for other SharedVolumes and for metrics, so records.mu guards them.

	// ungranted is true if no grant that is for the namespace lists the access point.
	ungranted bool
	// waitingSince is when the SharedVolume began to wait: it is not Ready, but nobody has to solve a problem such as a
	// missing grant. It is zero if the SharedVolume does not wait.
	waitingSince time.Time
	slot         *slot         // nil without a slot
	position     *list.Element // its position among the namespace's SharedVolumes that wait for a slot; nil if it does not wait
}

// namespaceSlots are the slots of one namespace.
type namespaceSlots struct {
	limiter limiter
	held    int
	waiting list.List // of records, the longest waiting first
}

// slot is the right to have a claim in flight, with the times when a SharedVolume acquired it and when the binder could first
// bind the claim. It is released when the claim is bound or cannot be bound, and taken away after slotTimeout.
type slot struct{ acquired, binding time.Time }

// current are the records of the controller that started last, for metrics that are computed when they are read.
var current atomic.Pointer[records]

func newRecords() *records {
	return &records{limiter: limiter{limit: initialSlots}, now: time.Now,
		all: map[types.NamespacedName]*record{}, namespaces: map[string]*namespaceSlots{}}
}

// of returns the record of a SharedVolume, a new one if there is none.
func (r *records) of(key types.NamespacedName) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[key] == nil {
		r.all[key] = &record{key: key, backoff: retryBackoff}
	}
	return r.all[key]
}

// forget drops the record of a SharedVolume that does not exist any more.
func (r *records) forget(of *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release(of)
	r.setUngranted(of, false)
	delete(r.all, of.key)
}

// follow records a decision. If the decision is to ask for a slot, it sets whether the SharedVolume holds one. If the decision is to wait
// without a slot, it releases the slot. It returns when to requeue the SharedVolume if the decision is to wait, and, if the SharedVolume
// became Ready, how long it had waited, or else nil.
func (r *records) follow(o *observed, d decision) (requeueAfter time.Duration, waited *time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setUngranted(o.record, !lists(o.grant, o.sharedVolume.Spec) || isIneffective(o.grant))
	o.record.beginWaiting(o.sharedVolume)
	requeueAfter = d.requeueAfter
	switch {
	case d.action == acquireSlot:
		o.slot, o.slotKnown = r.acquire(o.record), true
	case d.action == wait && d.slot == bindWithSlot:
		if remaining := r.startBinding(o.record); remaining > 0 {
			requeueAfter = min(requeueAfter, remaining)
		}
	case d.action == wait && d.slot == releaseSlot:
		r.release(o.record)
	}
	if d.status != nil {
		waited = o.record.waitedUntil(*o, *d.status)
	}
	return requeueAfter, waited
}

// overdue returns how many SharedVolumes wait longer to be Ready than they should.
func (r *records) overdue(now time.Time) (count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range r.all {
		if since := of.waitingSince; !since.IsZero() && now.Sub(since) > readyObjective {
			count++
		}
	}
	return count
}

// setUngranted records whether a SharedVolume lacks a grant.
func (r *records) setUngranted(of *record, lacks bool) {
	if lacks != of.ungranted {
		of.ungranted = lacks
		r.ungranted += map[bool]int{true: 1, false: -1}[lacks]
	}
	withoutGrant.WithLabelValues(DriverName).Set(float64(r.ungranted))
}

// beginWaiting records that a SharedVolume has been waiting since its creation, if no controller has written its status yet.
func (of *record) beginWaiting(sv *v1alpha1.SharedVolume) {
	if of.waitingSince.IsZero() && sv.Status.ObservedGeneration == 0 && sv.DeletionTimestamp == nil {
		of.waitingSince = sv.CreationTimestamp.Time
	}
}

// waitedUntil records the next readiness of a SharedVolume. It returns how long the SharedVolume has waited, once it is
// Ready, or nil. The time while somebody else has to solve a problem does not count.
func (of *record) waitedUntil(o observed, now readiness) *time.Duration {
	since := of.waitingSince
	if since.IsZero() {
		since = o.now
	}
	if now.reason == reasonPending || now.reason == reasonNotBound {
		of.waitingSince = since
		return nil
	}
	of.waitingSince = time.Time{}
	if now.phase != v1alpha1.Ready || meta.IsStatusConditionTrue(o.sharedVolume.Status.Conditions, v1alpha1.ConditionReady) {
		return nil
	}
	return new(max(0, o.now.Sub(since)))
}

// acquire reports whether a SharedVolume holds a slot. If it does not, it waits for one from now on.
func (r *records) acquire(of *record) bool {
	slots := r.namespaces[of.key.Namespace]
	if slots == nil {
		slots = &namespaceSlots{limiter: r.limiter}
		r.namespaces[of.key.Namespace] = slots
	}
	if of.slot != nil {
		if r.remaining(of.slot) > 0 {
			return true
		}
		of.slot = nil
		slots.held--
	}
	if of.position == nil {
		of.position = slots.waiting.PushBack(of)
	}
	r.assign(slots, of)
	return of.slot != nil
}

// startBinding records that claim and volume exist and that the binder can bind them. It returns how long the SharedVolume may keep its
// slot for that; 0 means that it holds none, or has just lost it.
func (r *records) startBinding(of *record) time.Duration {
	if of.slot == nil {
		return 0
	}
	if of.slot.binding.IsZero() {
		of.slot.binding = r.now()
	}
	remaining := r.remaining(of.slot)
	if remaining == 0 {
		r.free(of)
	}
	return remaining
}

// release releases the slot of a SharedVolume that no longer needs the binder, or ends its wait for a slot.
func (r *records) release(of *record) {
	slots := r.namespaces[of.key.Namespace]
	if of.position != nil {
		slots.waiting.Remove(of.position)
		of.position = nil
	}
	if of.slot != nil && !of.slot.binding.IsZero() {
		slots.limiter.observe(r.now(), r.now().Sub(of.slot.binding), slots.waiting.Len() > 0)
	}
	r.free(of)
}

// free frees a slot, if the SharedVolume holds one, and assigns it to the next SharedVolume.
func (r *records) free(of *record) {
	if of.slot == nil {
		return
	}
	slots := r.namespaces[of.key.Namespace]
	of.slot = nil
	slots.held--
	r.assign(slots, nil)
	if slots.held == 0 {
		delete(r.namespaces, of.key.Namespace)
	}
}

// assign assigns free slots to the SharedVolumes that have waited longest, and requeues them except for the asking one.
func (r *records) assign(slots *namespaceSlots, asking *record) {
	for slots.held < slots.limiter.limit && slots.waiting.Len() > 0 {
		next := slots.waiting.Remove(slots.waiting.Front()).(*record)
		next.position, next.slot = nil, &slot{acquired: r.now()}
		slots.held++
		if next != asking {
			r.requeue(next.key)
		}
	}
}

// remaining returns how much longer a slot may be held.
func (r *records) remaining(held *slot) time.Duration {
	return max(0, slotTimeout-r.now().Sub(held.acquired))
}
