package sharedvolume

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

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

// getListed reads a SharedVolume from the API server; it returns nil if it does not exist. A list with a field selector for the name is
// as cheap as a get, and needs only permissions that the cache needs, too.
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

// createOrGet creates an object and returns it. If the name is taken, it returns the existing object, and the next decision finds out who
// owns that. If the API server rejects the object, it returns nil. For a new SharedVolume it does not read first, because nobody has had
// a reason yet to take the name. For others it reads first, because the caches do not have objects without our labels, and an attempt to
// create is a write.
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
