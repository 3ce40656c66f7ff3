package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// Unadopted returns the driver's objects that an earlier operator created and that this operator has not adopted. It
// includes objects that have the label only because they were applied while their adoption was refused.
func (a *Applier) Unadopted(ctx context.Context, manifests []drivers.Manifest) ([]*metav1.PartialObjectMetadata, error) {
	var found []*metav1.PartialObjectMetadata
	for _, m := range manifests {
		if !a.history.Marks(m.Object) {
			continue // no earlier operator created one
		}
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(m.Object.GroupVersionKind())
		err := a.client.Get(ctx, client.ObjectKeyFromObject(m.Object), object)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", m.Object.GetKind(), m.Object.GetName(), err)
		}
		if a.Owned(object) && (!a.Managed(object) || slices.ContainsFunc(object.OwnerReferences, isAPI)) {
			object.SetGroupVersionKind(m.Object.GroupVersionKind()) // the response lacks it
			found = append(found, object)
		}
	}
	return found, nil
}

// Adopt takes unadopted objects over, each in one request: it sets the label, and removes owner references that could
// cause the object's deletion. The community operator made a CustomResourceDefinition the owner of its driver, so
// deleting that API would garbage-collect the driver. Everything else about the objects is left to the ordinary apply
// path.
//
// If the API server refuses the adoption of an object, the others are adopted all the same: refused names the objects,
// and why. err is a temporary error.
func (a *Applier) Adopt(ctx context.Context, unadopted []*metav1.PartialObjectMetadata) (refused, err error) {
	var refusals []error
	for _, object := range unadopted {
		kind, name, uid := object.GroupVersionKind(), object.Name, object.UID
		err := RetryOnConflict(ctx, func() error {
			failure := a.adoptOnce(ctx, object)
			if !apierrors.IsConflict(failure) {
				return failure
			}
			// Another controller may write the object's status at any time.
			err := a.client.Get(ctx, client.ObjectKeyFromObject(object), object)
			object.SetGroupVersionKind(kind) // the response lacks it
			switch {
			case err != nil:
				return err
			case object.UID != uid || !a.Owned(object):
				return fmt.Errorf("the object with UID %s was replaced: %v", uid, failure)
			}
			return failure
		})
		if err != nil {
			err = fmt.Errorf("adopting %s %s: %w", kind.Kind, name, err)
		}
		switch {
		case Refused(err):
			refusals = append(refusals, err)
			continue
		case err != nil:
			return nil, err
		}
		klog.V(2).InfoS("Adopted object", "kind", kind.Kind, "object", klog.KObj(object))
		a.metrics.AdoptedObjects.WithLabelValues(a.driver, kind.Kind).Inc()
		a.recorder.Eventf("Adopted", "Took over %s %s, which an earlier operator of the driver made", kind.Kind, name)
	}
	return utilerrors.NewAggregate(refusals), nil
}

// isAPI reports whether an owner is an API.
func isAPI(owner metav1.OwnerReference) bool { return owner.Kind == "CustomResourceDefinition" }

// adoptOnce tries to adopt an object. It fails with a conflict if the object has changed since it was read.
func (a *Applier) adoptOnce(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	owners := slices.DeleteFunc(slices.Clone(object.OwnerReferences), isAPI)
	// The resource version keeps this patch from undoing concurrent changes of the owner references.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": object.ResourceVersion, "ownerReferences": owners,
		"labels": map[string]any{ManagedByLabel: a.operator},
	}})
	if err != nil {
		return err
	}
	return a.client.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
}
