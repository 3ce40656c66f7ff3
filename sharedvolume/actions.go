package sharedvolume

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// acts has the deed for each action. A deed adds what it learns to what was observed.
var acts = map[action]func(context.Context, *reconciler, *observed, decision) error{
	acquireSlot: func(_ context.Context, r *reconciler, o *observed, _ decision) error {
		o.slot, o.slotKnown = r.slots.acquire(client.ObjectKeyFromObject(o.sharedVolume)), true
		return nil
	},

	readNamespace: func(ctx context.Context, r *reconciler, o *observed, _ decision) (err error) {
		o.namespace, err = get[corev1.Namespace](ctx, r.live, types.NamespacedName{Name: o.sharedVolume.Namespace})
		o.namespaceKnown = true
		if err == nil && !equality.Semantic.DeepEqual(grantStatus(o.grant, o.namespace), o.grant.Status) {
			select {
			case r.staleGrants <- event.GenericEvent{Object: o.grant}:
			default: // Others are about to be looked at; this one will come again.
			}
		}
		return err
	},

	addFinalizer: func(ctx context.Context, r *reconciler, o *observed, _ decision) error {
		o.fresh = true
		return r.changeFinalizers(ctx, o, func(present []string) []string { return append(present, Finalizer) })
	},
	removeFinalizer: func(ctx context.Context, r *reconciler, o *observed, _ decision) error {
		return r.changeFinalizers(ctx, o, func(present []string) []string {
			return slices.DeleteFunc(present, func(finalizer string) bool { return finalizer == Finalizer })
		})
	},

	createClaim: func(ctx context.Context, r *reconciler, o *observed, _ decision) error {
		return r.createClaim(ctx, o)
	},
	createVolume: func(ctx context.Context, r *reconciler, o *observed, s decision) error {
		return r.createVolume(ctx, o, s.volumeName)
	},

	labelClaim: func(ctx context.Context, r *reconciler, o *observed, _ decision) error {
		return r.label(ctx, o, o.claim)
	},
	labelVolume: func(ctx context.Context, r *reconciler, o *observed, s decision) error {
		return r.label(ctx, o, s.volume)
	},

	retainVolume: func(ctx context.Context, r *reconciler, o *observed, s decision) error {
		return r.patch(ctx, o, s.volume, mergePatch{body: map[string]any{
			"spec": map[string]any{"persistentVolumeReclaimPolicy": corev1.PersistentVolumeReclaimRetain}}})
	},
	reserveVolume: func(ctx context.Context, r *reconciler, o *observed, s decision) error {
		// The binder writes the reservation too, so only if nobody has since.
		return r.patch(ctx, o, s.volume, mergePatch{locked: true, body: map[string]any{
			"spec": map[string]any{"claimRef": map[string]any{
				"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": o.claim.Namespace,
				"name": o.claim.Name, "uid": o.claim.UID, "resourceVersion": nil}}}})
	},

	deleteClaim: func(ctx context.Context, r *reconciler, o *observed, _ decision) error {
		return r.delete(ctx, o, o.claim)
	},
	deleteVolume: func(ctx context.Context, r *reconciler, o *observed, s decision) error {
		return r.delete(ctx, o, s.volume)
	},

	findUsers: func(_ context.Context, r *reconciler, o *observed, _ decision) error {
		o.users, o.usersPending = r.users.lookUp(client.ObjectKeyFromObject(o.claim), client.ObjectKeyFromObject(o.sharedVolume))
		o.usersKnown = true
		return nil
	},
	readLive: func(ctx context.Context, r *reconciler, o *observed, _ decision) error {
		o.live = true
		return r.readObjects(ctx, r.live, o)
	},
}

// changeFinalizers writes what change makes of the list of finalizers, unless somebody else has changed the
// object since. A list that is too long for the cache is read for that.
func (r *reconciler) changeFinalizers(ctx context.Context, o *observed, change func([]string) []string) error {
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

// createClaim creates the claim. If there is one of that name, it becomes the observed one, and
// whose it is remains to be seen.
func (r *reconciler) createClaim(ctx context.Context, o *observed) (err error) {
	claim := desiredClaim(o.sharedVolume)
	o.claim, err = createOrGet(ctx, r, o, claim)
	return err
}

// createVolume is createClaim for the volume of a name.
func (r *reconciler) createVolume(ctx context.Context, o *observed, name string) error {
	volume, err := createOrGet(ctx, r, o, desiredVolume(o.sharedVolume, name, o.claim))
	if volume != nil {
		o.set(volume)
	}
	return err
}

// createOrGet creates an object and returns it, or the one that has its name, or nil if neither is
// possible. For a new SharedVolume nobody has had a reason yet to take the name; for others it looks
// first, as no cache shows the objects of strangers, and an attempt is a write.
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
	switch o.rejection = refusal(object, err); {
	case apierrors.IsAlreadyExists(err):
		return get[T, P](ctx, r.live, key)
	case o.rejection != nil:
		return nil, nil // Only somebody else can change that; it is no error but a thing to tell.
	case err != nil:
		return nil, err
	}
	r.recordWrite(o, object)
	return object, nil
}

// refusal returns what to tell of an error that retrying soon will not cure, or nil.
func refusal(object client.Object, err error) *readiness {
	what := "PersistentVolumeClaim"
	if _, ok := object.(*corev1.PersistentVolume); ok {
		what = "PersistentVolume"
	}
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return pending(reasonNamespaceDeleted, "%s %s is not created: the namespace is being deleted", what, object.GetName())
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return failed(reasonQuotaExceeded, "%s %s is not created: %v", what, object.GetName(), err)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return failed(reasonRefused, "%s %s is not created: %v", what, object.GetName(), err)
	default:
		return nil
	}
}

// label restores labels and annotations that somebody took away.
func (r *reconciler) label(ctx context.Context, o *observed, object client.Object) error {
	labels, annotations := ownerMeta(o.sharedVolume)
	metadata := map[string]any{"labels": labels}
	if len(annotations) > 0 { // A null would take all annotations away.
		metadata["annotations"] = annotations
	}
	return r.patch(ctx, o, object, mergePatch{body: map[string]any{"metadata": metadata}})
}

func (r *reconciler) patch(ctx context.Context, o *observed, object client.Object, patch mergePatch) error {
	patched := object.DeepCopyObject().(client.Object)
	if err := r.client.Patch(ctx, patched, patch, client.FieldOwner(controllerName)); err != nil {
		return err
	}
	r.recordWrite(o, patched)
	return nil
}

// delete deletes an object if it is still the one that was observed.
func (r *reconciler) delete(ctx context.Context, o *observed, object client.Object) error {
	uid := object.GetUID()
	err := r.client.Delete(ctx, object, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	deleted := object.DeepCopyObject().(client.Object)
	deleted.SetDeletionTimestamp(&metav1.Time{Time: o.now})
	r.recordWrite(o, deleted)
	return nil
}

// wrote adds an object as it is after a write to what was observed, and to what is remembered until
// the caches have it.
func (r *reconciler) recordWrite(o *observed, object client.Object) {
	o.set(object)
	o.expecting = true
	r.expectations.expect(client.ObjectKeyFromObject(o.sharedVolume), object)
}

// put makes an object the observed one of its kind and name.
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

// show writes the status that a verdict asks for, unless it is there already, and tells of a change
// that somebody should notice.
func (r *reconciler) writeStatus(ctx context.Context, o *observed, v readiness) error {
	status := statusOf(*o, v)
	if equality.Semantic.DeepEqual(status, o.sharedVolume.Status) {
		return nil
	}
	notice := notificationOf(meta.FindStatusCondition(o.sharedVolume.Status.Conditions, v1alpha1.ConditionReady),
		*meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady))

	body, err := statusBody(status)
	if err != nil {
		return err
	}
	patched := o.sharedVolume.DeepCopy()
	if err := r.client.Status().Patch(ctx, patched, mergePatch{body: map[string]any{"status": body}}, client.FieldOwner(controllerName)); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	r.recordWrite(o, patched)
	r.retry.Forget(client.ObjectKeyFromObject(patched)) // Something has changed: soon, more may.
	if notice != nil {
		r.events.Eventf(o.sharedVolume, nil, notice.eventType, notice.reason, "Reconcile", "%s", notice.note)
	}
	return nil
}

// statusBody returns a status for a merge patch, in which a field that is not set must say so to
// replace one that is.
func statusBody(status v1alpha1.SharedVolumeStatus) (map[string]any, error) {
	body := map[string]any{"claimRef": nil, "message": nil, "observedGeneration": nil}
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return body, json.Unmarshal(raw, &body)
}

// mergePatch is a JSON merge patch of one object: of the object of that UID, not of a later one of
// the same name, and if locked, only while nobody else has changed it.
type mergePatch struct {
	body   map[string]any
	locked bool
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
