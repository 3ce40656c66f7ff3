package sharedvolume

import (
	"context"
	"fmt"

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
// and reserved for a claim that is gone.
//
// A SharedVolume usually takes its volume with it. But whoever may change one may take its finalizer
// off, too; an administrator has to if the operator was removed first; and a deletion that comes while
// the finalizer is being put on passes it. Kubernetes' garbage collector then takes the claim, once no
// pod uses it. The volume, which cannot belong to an object of a namespace, would stay for ever.
type orphans struct {
	cached client.Reader
	live   client.Reader
	client client.Client
}

// addOrphans makes mgr look for orphans.
func addOrphans(mgr manager.Manager) error {
	released := predicate.NewPredicateFuncs(func(volume client.Object) bool {
		return volume.(*corev1.PersistentVolume).Status.Phase == corev1.VolumeReleased
	})
	return builder.ControllerManagedBy(mgr).
		Named("sharedvolume-orphans").
		For(&corev1.PersistentVolume{}, builder.WithPredicates(released)).
		Watches(&v1alpha1.SharedVolume{}, handler.Funcs{DeleteFunc: enqueueVolume}).
		Complete(&orphans{cached: mgr.GetCache(), live: mgr.GetAPIReader(), client: mgr.GetClient()})
}

// enqueueVolume has the volume of a SharedVolume that is gone looked at: it may have been released
// earlier.
func enqueueVolume(_ context.Context, gone event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: volumeName(gone.Object.(*v1alpha1.SharedVolume))}})
}

func (r *orphans) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	volume, err := get[corev1.PersistentVolume](ctx, r.cached, request.NamespacedName)
	if err != nil || volume == nil || !mayBeOrphan(volume) {
		return reconcile.Result{}, err
	}
	owner, err := get[v1alpha1.SharedVolume](ctx, r.cached, ownerOf(volume))
	if err != nil || owner != nil && volume.Name == volumeName(owner) {
		return reconcile.Result{}, err // Its end is an event.
	}
	// The cache of volumes may be ahead of that of claims.
	ref := volume.Spec.ClaimRef
	claim, err := get[corev1.PersistentVolumeClaim](ctx, r.live, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	if err != nil || claim != nil && claim.UID == ref.UID {
		return reconcile.Result{}, err // The volume's release is an event.
	}
	// Unless somebody has changed it since it was looked at.
	err = r.client.Delete(ctx, volume, client.Preconditions{UID: &volume.UID, ResourceVersion: &volume.ResourceVersion})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // The change is an event of its own.
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("deleting PersistentVolume %s, whose SharedVolume and claim are gone: %w", volume.Name, err)
	}
	return reconcile.Result{}, nil
}

// mayBeOrphan tells whether a volume is one that this controller made, reserved for one claim, and
// not being deleted yet.
func mayBeOrphan(volume *corev1.PersistentVolume) bool {
	uid, claim := volume.Labels[OwnerUIDLabel], volume.Spec.ClaimRef
	return volume.Name == volumeNamePrefix+uid && claim != nil && claim.UID != "" && volume.DeletionTimestamp == nil
}
