package sharedvolume

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// perform performs the action of a decision, and adds the result to the observed state.
func (r *reconciler) perform(ctx context.Context, o *observed, d decision) error {
	switch d.action {
	case acquireSlot:
		if !o.slot { // The record has asked for one.
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

// readNamespace reads the SharedVolume's namespace from the API server. If that shows the status of the grant to be stale,
// it has the grant reconciled.
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

// patchFinalizers writes the changed list of finalizers, unless somebody else has changed the object since it was observed.
// If the list was too long for the cache, it is read from the API server first.
func (r *reconciler) patchFinalizers(ctx context.Context, o *observed, change func([]string) []string) error {
	present := o.sharedVolume.Finalizers
	if slices.Contains(present, omittedFinalizers) {
		current, err := getListed(ctx, r.live, client.ObjectKeyFromObject(o.sharedVolume))
		if err != nil {
			return err
		}
		if current == nil {
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("sharedvolumes").GroupResource(), o.sharedVolume.Name)
		}
		present = current.Finalizers
	}
	finalizers := change(slices.Clone(present))
	return r.patch(ctx, o, o.sharedVolume, mergePatch{locked: true, body: map[string]any{
		"metadata": map[string]any{"finalizers": finalizers}}})
}

// getListed reads a SharedVolume from the API server; it returns nil if it does not exist. A list with a field selector for
// the name is as cheap as a get, and needs no permission that the cache does not need.
func getListed(ctx context.Context, live client.Reader, key types.NamespacedName) (*v1alpha1.SharedVolume, error) {
	list := &v1alpha1.SharedVolumeList{}
	err := live.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name})
	if err != nil {
		return nil, fmt.Errorf("reading SharedVolume %s: %w", key, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

// createOrGet creates an object and returns it, or the existing one of that name, or nil if the API server rejects it.
// The next decision finds out who owns an existing one. For a new SharedVolume nobody has had a reason yet to take the
// name. For others it reads first, because the caches do not have objects without our labels, and an attempt to create
// is a write.
func createOrGet[T any, P interface {
	*T
	client.Object
}](ctx context.Context, r *reconciler, o *observed, object P) (P, error) {
	key := client.ObjectKeyFromObject(object)
	if !o.fresh {
		if existing, err := get[T, P](ctx, r.live, key); err != nil || existing != nil {
			return existing, err
		}
	}
	err := r.client.Create(ctx, object, client.FieldOwner(controllerName))
	switch o.rejection = rejectionOf(object, err); {
	case apierrors.IsAlreadyExists(err):
		return get[T, P](ctx, r.live, key)
	case o.rejection != nil:
		return nil, nil // Only somebody else can change that, so it is not an error but a status.
	case err != nil:
		return nil, err
	}
	klog.FromContext(ctx).V(2).Info("Created "+kindOf(object), "object", klog.KObj(object))
	o.wrote(object)
	return object, nil
}

// rejectionOf returns the status for an error that retrying soon does not fix, or nil.
func rejectionOf(object client.Object, err error) *readiness {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return pending(reasonNamespaceDeleted, "%s %s is not created: the namespace is being deleted", kindOf(object), object.GetName())
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return failed(reasonQuotaExceeded, "%s %s is not created: %v", kindOf(object), object.GetName(), err)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return failed(reasonRefused, "%s %s is not created: %v", kindOf(object), object.GetName(), err)
	default:
		return nil
	}
}

// kindOf returns the kind of an object that the controller writes.
func kindOf(object client.Object) string {
	switch object.(type) {
	case *corev1.PersistentVolumeClaim:
		return "PersistentVolumeClaim"
	case *corev1.PersistentVolume:
		return "PersistentVolume"
	default:
		return "SharedVolume"
	}
}

// patchLabels restores labels and annotations that somebody has removed.
func (r *reconciler) patchLabels(ctx context.Context, o *observed, object client.Object) error {
	labels, annotations := ownerMeta(o.sharedVolume)
	metadata := map[string]any{"labels": labels}
	if len(annotations) > 0 { // A null would remove all annotations.
		metadata["annotations"] = annotations
	}
	return r.patch(ctx, o, object, mergePatch{body: map[string]any{"metadata": metadata}})
}

func (r *reconciler) patch(ctx context.Context, o *observed, object client.Object, patch mergePatch) error {
	patched := object.DeepCopyObject().(client.Object)
	if err := r.client.Patch(ctx, patched, patch, client.FieldOwner(controllerName)); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Patched "+kindOf(object), "object", klog.KObj(object), "patch", patch)
	o.wrote(patched)
	return nil
}

// delete deletes an object if it is still the observed one.
func (r *reconciler) delete(ctx context.Context, o *observed, object client.Object) error {
	uid := object.GetUID()
	err := r.client.Delete(ctx, object, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Deleted "+kindOf(object), "object", klog.KObj(object))
	deleted := object.DeepCopyObject().(client.Object)
	deleted.SetDeletionTimestamp(&metav1.Time{Time: o.now})
	o.wrote(deleted)
	return nil
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

// mergePatch is a JSON merge patch with preconditions: the object must have the same UID, and if locked, also the same
// resource version.
type mergePatch struct {
	body   map[string]any
	locked bool
}

// String returns the patch for the log. It is bounded, because others may have added any number of finalizers.
func (p mergePatch) String() string {
	body, err := json.Marshal(p.body)
	if err != nil {
		return err.Error()
	}
	return truncate(string(body), maxMessage)
}

func (mergePatch) Type() types.PatchType { return types.MergePatchType }

func (p mergePatch) Data(object client.Object) ([]byte, error) {
	metadata := map[string]any{"uid": object.GetUID()}
	if p.locked {
		metadata["resourceVersion"] = object.GetResourceVersion()
	}
	body := maps.Clone(p.body)
	if given, ok := body["metadata"].(map[string]any); ok {
		maps.Copy(metadata, given)
	}
	body["metadata"] = metadata
	return json.Marshal(body)
}
