package sharedvolume

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	polling "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

const (
	// expectationTimeout is how long a write is expected to appear in a cache. It never appears if the object was deleted
	// before the watch saw it.
	expectationTimeout = 5 * time.Second
	// slotTimeout is how long a SharedVolume keeps its slot if its claim is not bound.
	slotTimeout = 10 * time.Second
)

// retryBackoff is the backoff for actions that may become possible without an event.
var retryBackoff = polling.Backoff{Duration: time.Second, Factor: 2, Steps: 10, Cap: 5 * time.Minute}

// slotUse is the purpose of the slot that a SharedVolume waits for.
type slotUse string

const (
	releaseSlot  slotUse = ""      // nothing: another SharedVolume may have it
	awaitSlot    slotUse = "await" // it waits for a slot
	bindWithSlot slotUse = "bind"  // the binder must bind its claim
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
	position     *list.Element // its position among the waiting ones of the namespace, nil if it does not wait for a slot
}

// writes are writes by kind and name of the object.
type writes map[string]write

type write struct {
	object client.Object
	at     time.Time
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

// observe reads the state from the caches, with the expected writes that they do not show yet. If a request about the
// SharedVolume has failed, it reads claim and volumes from the API server. The SharedVolume is nil if it does not exist;
// then nothing is remembered about it.
func (r *reconciler) observe(ctx context.Context, key types.NamespacedName) (o observed, err error) {
	o.now = time.Now()
	o.record = r.records.of(key)
	defer func() {
		if err != nil {
			o.record.uncertain = true
		}
	}()
	if o.sharedVolume, err = get[v1alpha1.SharedVolume](ctx, r.cached, key); err != nil {
		return o, err
	}
	if o.sharedVolume == nil {
		r.records.forget(o.record)
		if r.accessPoints != nil {
			r.accessPoints.Release(key.String())
		}
		return o, nil
	}
	policy, err := get[v1alpha1.SharedVolumePolicy](ctx, r.cached, policyKey)
	if err != nil {
		return o, err
	}
	if o.grant, err = get[v1alpha1.SharedVolumeGrant](ctx, r.cached, types.NamespacedName{Name: key.Namespace}); err != nil {
		return o, err
	}
	o.open = isOpen(policy)
	o.accessPoint = r.findAccessPoint(key, o)
	from := r.cached
	if o.record.uncertain {
		from = r.live
	}
	if err := r.readObjects(ctx, from, &o); err != nil {
		return o, err
	}
	if o.record.uncertain {
		o.record.uncertain = false
		o.record.expectRead(o)
	}
	expected := o.record.writes
	o.sharedVolume = newest(expected, key.Name, o.sharedVolume)
	o.claim = newest(expected, ClaimName(key.Name), o.claim)
	o.volume = newest(expected, volumeName(o.sharedVolume), o.volume)
	o.communityVolume = newest(expected, communityVolumeName(o.sharedVolume), o.communityVolume)
	r.records.begin(o)
	return o, nil
}

// findAccessPoint returns the condition about the access point of a SharedVolume. Only if its namespace was granted the
// access point: others would learn which ones exist.
func (r *reconciler) findAccessPoint(key types.NamespacedName, o observed) accessPoint {
	spec := o.sharedVolume.Spec
	if r.accessPoints == nil {
		return accessPoint{}
	}
	if o.sharedVolume.DeletionTimestamp != nil || !lists(o.grant, spec) || !isEffective(o.grant) {
		r.accessPoints.Release(key.String())
		return accessPoint{known: true}
	}
	present, reason, message, known := r.accessPoints.Find(key.String(), spec.FileSystemID, spec.AccessPointID)
	return accessPoint{known: known, present: present, reason: reason, message: message}
}

// readObjects reads the claim and the volumes of a SharedVolume.
func (r *reconciler) readObjects(ctx context.Context, from client.Reader, o *observed) error {
	var err error
	if o.claim, err = get[corev1.PersistentVolumeClaim](ctx, from, claimKey(o.sharedVolume)); err != nil {
		return err
	}
	if o.volume, err = get[corev1.PersistentVolume](ctx, from, types.NamespacedName{Name: volumeName(o.sharedVolume)}); err != nil {
		return err
	}
	o.communityVolume, err = get[corev1.PersistentVolume](ctx, from, types.NamespacedName{Name: communityVolumeName(o.sharedVolume)})
	return err
}

func claimKey(sv *v1alpha1.SharedVolume) types.NamespacedName {
	return types.NamespacedName{Namespace: sv.Namespace, Name: ClaimName(sv.Name)}
}

// get reads an object; it returns nil if the object does not exist.
func get[T any, P interface {
	*T
	client.Object
}](ctx context.Context, from client.Reader, key types.NamespacedName) (P, error) {
	object := P(new(T))
	err := from.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %T %s: %w", object, key, err)
	}
	return object, nil
}

// newest returns the newer of the cached object and its last write, by name. Either may be nil. It drops the write from
// expected if the cache has caught up with it.
func newest[P interface {
	comparable
	client.Object
}](expected writes, name string, cached P) P {
	var none P
	key := writeKey(none, name)
	last, ok := expected[key]
	if !ok {
		return cached
	}
	written := last.object.(P)
	deleted := cached == none && written.GetDeletionTimestamp() != nil
	if deleted || time.Since(last.at) > expectationTimeout || cached != none && caughtUp(cached, written) {
		delete(expected, key)
		return cached
	}
	return written
}

// caughtUp reports whether a cached object is at least as new as a write.
func caughtUp(cached, written client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), written.GetResourceVersion())
	if err != nil {
		return true // They are not comparable, so the cache is all there is.
	}
	// The last version of an object is the one that was deleted, or lost its last finalizer. The object in the cache at
	// that version has no deletion timestamp yet.
	return order > 0 || order == 0 && written.GetDeletionTimestamp() == nil
}

func writeKey(object client.Object, name string) string { return fmt.Sprintf("%T %s", object, name) }

// wrote adds an object as it is after a write to the observed state, and to the writes that the caches will show. A
// deleted object has a deletion timestamp.
func (o *observed) wrote(object client.Object) {
	o.set(object)
	o.record.expect(object)
}

// set makes an object the observed one of its kind and name.
func (o *observed) set(object client.Object) {
	switch object := object.(type) {
	case *v1alpha1.SharedVolume:
		o.sharedVolume = object
	case *corev1.PersistentVolumeClaim:
		o.claim = object
	case *corev1.PersistentVolume:
		if object.Name == communityVolumeName(o.sharedVolume) {
			o.communityVolume = object
		} else {
			o.volume = object
		}
	}
}

// expect expects the caches to show an object as the API server returned it. It trims the object.
func (of *record) expect(object client.Object) {
	trim(object)
	if of.writes == nil {
		of.writes = writes{}
	}
	of.writes[writeKey(object, object.GetName())] = write{object, time.Now()}
}

// expectRead expects the caches to show the objects that were read from the API server.
func (of *record) expectRead(o observed) {
	if o.claim != nil {
		of.expect(o.claim)
	}
	for _, volume := range []*corev1.PersistentVolume{o.volume, o.communityVolume} {
		if volume != nil {
			of.expect(volume)
		}
	}
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

// begin records an observed state at the beginning of a pass.
func (r *records) begin(o observed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setUngranted(o.record, !lists(o.grant, o.sharedVolume.Spec) || isIneffective(o.grant))
	o.record.beginWaiting(o.sharedVolume)
}

// follow records a decision. It sets whether the SharedVolume holds a slot if the decision is to ask for one, and releases
// its slot if the decision is to wait without one. It returns when to requeue the SharedVolume if the decision is to wait,
// and how long it has waited until it became Ready, or nil.
func (r *records) follow(o *observed, d decision) (requeueAfter time.Duration, waited *time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
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

// beginWaiting records that a SharedVolume whose status no controller has written waits since its creation.
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

// startBinding records that claim and volume exist and that the binder can bind them. It returns how long the SharedVolume
// may keep its slot for that; 0 means that it holds none, or no longer.
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

// release releases the slot of a SharedVolume that no longer needs the binder, or stops it from waiting for one.
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

// free frees a slot, if the SharedVolume holds one, and assigns it to the next.
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

// remaining returns how long a slot is still held.
func (r *records) remaining(held *slot) time.Duration {
	return max(0, slotTimeout-r.now().Sub(held.acquired))
}
