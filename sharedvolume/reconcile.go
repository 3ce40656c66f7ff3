package sharedvolume

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	polling "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// reconciler reconciles SharedVolumes.
type reconciler struct {
	cached  client.Reader
	live    client.Reader
	client  client.Client
	events  events.EventRecorder
	records *records
	users   *users
	// accessPoints is nil if nobody asks AWS.
	accessPoints AccessPoints
	staleGrants  chan<- event.GenericEvent
}

// maxActions is how many actions a pass may perform. No SharedVolume needs more than each of the 14 actions twice.
const maxActions = 28

// retryBackoff is the backoff for actions that may become possible without an event.
var retryBackoff = polling.Backoff{Duration: time.Second, Factor: 2, Steps: 10, Cap: 5 * time.Minute}

// expectationTimeout is how long a write is expected to appear in a cache. A write never appears if the object was deleted before the
// watch saw it.
const expectationTimeout = 5 * time.Second

// Reconcile performs one action after another until the decision is to wait.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o, err := r.observe(ctx, request.NamespacedName)
	if err != nil || o.sharedVolume == nil {
		return reconcile.Result{}, err
	}
	log := klog.FromContext(ctx)
	for range maxActions {
		d := next(o)
		// Before the status is written, because another SharedVolume may be waiting for the slot.
		requeueAfter, waited := r.records.follow(&o, d)
		log.V(4).Info("Decided", "action", d.action, "requeueAfter", requeueAfter, "backoff", d.backoff)
		if d.status != nil {
			if err = r.writeStatus(ctx, &o, *d.status); err == nil && waited != nil {
				readyDuration.WithLabelValues(DriverName).Observe(waited.Seconds())
			}
		}
		if err == nil && d.action == wait {
			return result(o.record, requeueAfter, d.backoff), nil
		}
		if err == nil {
			err = r.perform(ctx, &o, d)
		}
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			// Somebody else wrote or deleted the object. The caches will show that in a moment.
			log.V(4).Info("Somebody else changed an object", "action", d.action, "err", err)
			o.record.writes, o.record.uncertain = nil, false
			return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
		}
		if err != nil {
			// The API server may have performed the request nevertheless.
			o.record.uncertain = true
			return reconcile.Result{}, fmt.Errorf("%s: %w", d.action, err)
		}
	}
	return reconcile.Result{}, fmt.Errorf("not settled after %d actions; the next is to %s", maxActions, next(o).action)
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
	return o, nil
}

// findAccessPoint returns the known state of a SharedVolume's access point, but only if the access point is granted to the namespace:
// other namespaces must not learn which access points exist.
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

// writeStatus writes the status of a decision, unless the SharedVolume has it already, and sends an event about a change that
// people should notice.
func (r *reconciler) writeStatus(ctx context.Context, o *observed, ready readiness) error {
	status := statusOf(*o, ready)
	if equality.Semantic.DeepEqual(status, o.sharedVolume.Status) {
		return nil
	}
	was := o.sharedVolume.Status.Conditions
	after := *meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	notifications := []*notification{
		notificationOf(meta.FindStatusCondition(was, v1alpha1.ConditionReady), after),
		absenceOf(meta.FindStatusCondition(was, v1alpha1.ConditionFileSystemAvailable), meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFileSystemAvailable)),
	}

	body, err := statusBody(status)
	if err != nil {
		return err
	}
	patched := o.sharedVolume.DeepCopy()
	if err := r.client.Status().Patch(ctx, patched, mergePatch{body: map[string]any{"status": body}}, client.FieldOwner(controllerName)); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	klog.FromContext(ctx).V(2).Info("Changed the status", "phase", status.Phase, "reason", after.Reason, "message", after.Message)
	o.wrote(patched)
	o.record.backoff = retryBackoff // More may change soon.
	for _, n := range notifications {
		if n != nil {
			r.events.Eventf(o.sharedVolume, nil, n.eventType, n.reason, "Reconcile", "%s", n.note)
		}
	}
	return nil
}

// statusBody returns a status for a merge patch. Fields that are not set are null there, to remove an earlier value.
func statusBody(status v1alpha1.SharedVolumeStatus) (map[string]any, error) {
	body := map[string]any{"claimRef": nil, "message": nil, "summary": nil, "observedGeneration": nil}
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return body, json.Unmarshal(raw, &body)
}

// perform performs the action of a decision, and adds the result to the observed state.
func (r *reconciler) perform(ctx context.Context, o *observed, d decision) error {
	switch d.action {
	case acquireSlot:
		if !o.slot { // records.follow has asked for one.
			klog.FromContext(ctx).V(2).Info("Waiting for an in-flight slot of the namespace")
		}
		return nil
	case readNamespace:
		return r.readNamespace(ctx, o)
	case readLive:
		o.live = true
		return r.readObjects(ctx, r.live, o)
	case findUsers:
		o.users, o.usersPending = r.users.lookUp(client.ObjectKeyFromObject(o.claim), client.ObjectKeyFromObject(o.sharedVolume))
		o.usersKnown = true
		return nil
	case addFinalizer:
		o.fresh = true
		return r.patchFinalizers(ctx, o, func(present []string) []string { return append(present, Finalizer) })
	case removeFinalizer:
		return r.patchFinalizers(ctx, o, func(present []string) []string {
			return slices.DeleteFunc(present, func(finalizer string) bool { return finalizer == Finalizer })
		})
	case createClaim:
		claim, err := createOrGet(ctx, r, o, desiredClaim(o.sharedVolume))
		o.claim = claim
		return err
	case createVolume:
		volume, err := createOrGet(ctx, r, o, desiredVolume(o.sharedVolume, d.volumeName, o.claim))
		if volume != nil {
			o.set(volume)
		}
		return err
	case labelClaim:
		return r.patchLabels(ctx, o, o.claim)
	case labelVolume:
		return r.patchLabels(ctx, o, d.volume)
	case retainVolume:
		return r.patch(ctx, o, d.volume, mergePatch{body: map[string]any{
			"spec": map[string]any{"persistentVolumeReclaimPolicy": corev1.PersistentVolumeReclaimRetain}}})
	case reserveVolume:
		// The binder writes the reservation, too, so this must fail if the volume has changed.
		return r.patch(ctx, o, d.volume, mergePatch{locked: true, body: map[string]any{
			"spec": map[string]any{"claimRef": map[string]any{
				"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": o.claim.Namespace,
				"name": o.claim.Name, "uid": o.claim.UID, "resourceVersion": nil}}}})
	case deleteClaim:
		return r.delete(ctx, o, o.claim)
	case deleteVolume:
		return r.delete(ctx, o, d.volume)
	}
	return fmt.Errorf("unknown action %q", d.action)
}

// readNamespace reads the SharedVolume's namespace from the API server. If the namespace shows that the status of the grant is stale, it
// requests that the grant is reconciled.
func (r *reconciler) readNamespace(ctx context.Context, o *observed) (err error) {
	o.namespace, err = get[corev1.Namespace](ctx, r.live, types.NamespacedName{Name: o.sharedVolume.Namespace})
	o.namespaceKnown = true
	if err == nil && !equality.Semantic.DeepEqual(grantStatus(o.grant, o.namespace), o.grant.Status) {
		select {
		case r.staleGrants <- event.GenericEvent{Object: o.grant}:
		default: // The queue is full. The next pass will find the grant stale again.
		}
	}
	return err
}

// result returns when to reconcile a SharedVolume again.
func result(of *record, requeueAfter time.Duration, backoff bool) reconcile.Result {
	if backoff {
		return reconcile.Result{RequeueAfter: of.backoff.Step()}
	}
	of.backoff = retryBackoff
	if len(of.writes) > 0 && (requeueAfter == 0 || requeueAfter > expectationTimeout) {
		requeueAfter = expectationTimeout
	}
	return reconcile.Result{RequeueAfter: requeueAfter}
}

// writes are writes by kind and name of the object.
type writes map[string]write

type write struct {
	object client.Object
	at     time.Time
}

// newest returns the newer of the cached object and the last expected write of the object with that name. Either may be missing. It drops
// the write from expected if the cache has caught up with it, or after expectationTimeout.
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
	// A write that deletes the object, or removes its last finalizer, leaves the object at its last version. The cache may show that
	// version before it shows the write.
	return order > 0 || order == 0 && written.GetDeletionTimestamp() == nil
}

// wrote takes an object as it is after a write, and adds it to the observed state and to the writes that the caches will show. A deleted
// object has a deletion timestamp.
func (o *observed) wrote(object client.Object) {
	o.set(object)
	o.record.expect(object)
}

// set replaces the observed object of the same kind and name.
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

func writeKey(object client.Object, name string) string { return fmt.Sprintf("%T %s", object, name) }
