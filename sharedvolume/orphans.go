package sharedvolume

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// orphans deletes the volumes that nobody can use again: those made for a SharedVolume that is gone,
// and for a claim that is gone.
//
// A SharedVolume usually takes its volume with it. But whoever may change one may take its finalizer
// off, too; an administrator has to if the operator was removed first; and a deletion that comes while
// the finalizer is being put on passes it. Kubernetes' garbage collector then takes the claim, once no
// pod uses it, unless somebody made that claim for the SharedVolume. The volume, which cannot belong to an
// object of a namespace, would stay for ever.
type orphans struct {
	cached client.Reader
	live   client.Reader
	client client.Client
	// retry spaces out the looks at a volume whose claim is still there: of a claim that names another volume,
	// or none, its end is no event about this one.
	retry workqueue.TypedRateLimiter[string]
}

// addOrphans makes mgr look for orphans.
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

// enqueueVolumes has the volumes of a SharedVolume that is gone looked at: they may have been released
// earlier, and may never have been bound.
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
		return reconcile.Result{}, err // Its end is an event.
	}
	// The cache of volumes may be ahead of those of SharedVolumes and claims.
	if owner, err = getListed(ctx, r.live, ownerOf(volume)); err != nil || createdFor(volume, owner) {
		return reconcile.Result{RequeueAfter: r.retry.When(request.Name)}, err
	}
	// Most SharedVolumes take their volume with them, before they go.
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
	// Unless somebody has changed it since it was looked at.
	r.retry.Forget(request.Name)
	err = r.client.Delete(ctx, volume, client.Preconditions{UID: &volume.UID, ResourceVersion: &volume.ResourceVersion})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // The change is an event of its own.
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("deleting PersistentVolume %s, whose SharedVolume and claim are gone: %w", volume.Name, err)
	}
	return reconcile.Result{}, nil
}

// mayBeOrphan tells whether a volume is one that this controller made, under whatever name, and is not being
// deleted yet. The community operator wrote no UID into its labels, and only administrators can write any. What
// has no reservation, or one by name for another claim, an administrator has given to somebody else: a volume is
// reserved from its creation, and the binder takes no more of that away than the claim's UID.
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

// madeFor tells whether a volume was made for a SharedVolume.
func createdFor(volume *corev1.PersistentVolume, owner *v1alpha1.SharedVolume) bool {
	return owner != nil && volume.Labels[OwnerUIDLabel] == string(owner.UID)
}

// mayUse tells whether a claim of the name that a volume is reserved for is bound to the volume, or may come to
// be.
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
