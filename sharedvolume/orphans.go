package sharedvolume

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// orphans deletes volumes that can never be used again, because their SharedVolume and their claim no longer exist.
//
// Usually the volume is deleted with its SharedVolume. But the finalizer may be missing: anyone who may change a SharedVolume may remove
// it, an administrator has to remove it if the operator was removed first, and the SharedVolume may be deleted before it is added. Then
// Kubernetes' garbage collector deletes the claim once no pod uses it, because the SharedVolume owns it. A volume cannot have a
// namespaced owner, and would stay forever.
type orphans struct {
	cached client.Reader
	live   client.Reader
	client client.Client
	// retry is the backoff for a volume whose claim still exists: the deletion of a claim that names another volume, or no volume, causes
	// no event about this volume.
	retry workqueue.TypedRateLimiter[string]
}

// addOrphans adds the controller of orphans to mgr.
func addOrphans(mgr manager.Manager) error {
	// A volume is released when the claim that it is bound to is gone.
	notBound := predicate.NewPredicateFuncs(func(object client.Object) bool {
		volume := object.(*corev1.PersistentVolume)
		return isOrphanCandidate(volume) && volume.Status.Phase != corev1.VolumeBound
	})
	return builder.ControllerManagedBy(mgr).
		Named("sharedvolume-orphans").
		For(&corev1.PersistentVolume{}, builder.WithPredicates(notBound)).
		Watches(&v1alpha1.SharedVolume{}, handler.Funcs{DeleteFunc: enqueueVolumes}).
		Complete(&orphans{
			cached: mgr.GetCache(), live: mgr.GetAPIReader(), client: mgr.GetClient(),
			retry: workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Second, 10*time.Minute),
		})
}

// enqueueVolumes enqueues the volumes of a deleted SharedVolume. These volumes may have been released earlier, or never bound, so there
// may be no event about them.
func enqueueVolumes(_ context.Context, gone event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	sv := gone.Object.(*v1alpha1.SharedVolume)
	for _, name := range []string{volumeName(sv), communityVolumeName(sv)} {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
}

func (r *orphans) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	volume, err := get[corev1.PersistentVolume](ctx, r.cached, request.NamespacedName)
	if err != nil || volume == nil || !isOrphanCandidate(volume) {
		r.retry.Forget(request.Name)
		return reconcile.Result{}, err
	}
	owner, err := get[v1alpha1.SharedVolume](ctx, r.cached, ownerOf(volume))
	if err != nil || createdFor(volume, owner) {
		return reconcile.Result{}, err // The deletion of the SharedVolume is an event.
	}
	// The cache of volumes may be newer than the caches of SharedVolumes and claims.
	if owner, err = getListed(ctx, r.live, ownerOf(volume)); err != nil || createdFor(volume, owner) {
		return reconcile.Result{RequeueAfter: r.retry.When(request.Name)}, err
	}
	// In most cases the SharedVolume's controller has already deleted the volume.
	if volume, err = get[corev1.PersistentVolume](ctx, r.live, request.NamespacedName); err != nil || volume == nil || !isOrphanCandidate(volume) {
		return reconcile.Result{}, err
	}
	ref := volume.Spec.ClaimRef
	claim, err := get[corev1.PersistentVolumeClaim](ctx, r.live, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case claim == nil || !mayUse(claim, volume):
	case volume.Status.Phase == corev1.VolumeBound:
		return reconcile.Result{}, nil // The volume's release is an event.
	default:
		return reconcile.Result{RequeueAfter: r.retry.When(request.Name)}, nil
	}
	// The preconditions make this fail if somebody has changed the volume since.
	r.retry.Forget(request.Name)
	err = r.client.Delete(ctx, volume, client.Preconditions{UID: &volume.UID, ResourceVersion: &volume.ResourceVersion})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // The change is an event of its own.
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("deleting PersistentVolume %s, whose SharedVolume and claim no longer exist: %w", volume.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Deleted PersistentVolume, whose SharedVolume and claim no longer exist", "object", klog.KObj(volume), "sharedVolume", ownerOf(volume))
	return reconcile.Result{}, nil
}

// isOrphanCandidate reports whether a volume was created by this controller, under either name, and is not being
// deleted yet. Only this controller and administrators write the label with a UID; the community operator did not. A
// volume without a reservation, or with one by name for another claim, was given to somebody else by an administrator:
// the controller creates volumes with a reservation, and the binder removes at most the claim's UID from it.
func isOrphanCandidate(volume *corev1.PersistentVolume) bool {
	uid, owner, ref := volume.Labels[OwnerUIDLabel], ownerOf(volume), volume.Spec.ClaimRef
	switch {
	case uid == "" || volume.Spec.CSI == nil || volume.Spec.CSI.Driver != DriverName || ref == nil || volume.DeletionTimestamp != nil:
		return false
	case volume.Name != volumeNamePrefix+uid && volume.Name != "pv-"+owner.Namespace+"-"+owner.Name:
		return false
	default:
		return ref.UID != "" || ref.Namespace == owner.Namespace && ref.Name == ClaimName(owner.Name)
	}
}

// createdFor reports whether a volume was created for a SharedVolume.
func createdFor(volume *corev1.PersistentVolume, owner *v1alpha1.SharedVolume) bool {
	return owner != nil && volume.Labels[OwnerUIDLabel] == string(owner.UID)
}

// mayUse reports whether a claim is bound to a volume, or may yet be bound to it. The claim has the name that the volume is reserved for.
func mayUse(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	switch ref := volume.Spec.ClaimRef; claim.Spec.VolumeName {
	case volume.Name:
		return ref.UID == "" || ref.UID == claim.UID
	case "":
		return ref.UID == claim.UID
	default:
		return false
	}
}
