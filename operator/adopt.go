package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// adopt takes over what earlier operators of the driver left: it frees the ClusterCSIDriver of
// finalizers that nobody will ever remove, and the driver's objects of owners whose end would be
// theirs. All else about an object that exists is the business of the ordinary apply path.
func (o *operator) adopt(ctx context.Context, c *clients, manifests []drivers.Manifest) error {
	for _, finalizer := range o.driver.History.Finalizers {
		if err := c.customResource.RemoveFinalizer(ctx, finalizer); err != nil {
			return fmt.Errorf("removing the finalizer %s of an earlier operator: %w", finalizer, err)
		}
	}
	for _, m := range manifests {
		if err := o.disown(ctx, c, m.Object); err != nil {
			return fmt.Errorf("adopting %s %s: %w", m.Object.GetKind(), m.Object.GetName(), err)
		}
	}
	return nil
}

// disown strips an object of the CustomResourceDefinitions that own it. The community operator made
// one the owner of its driver: deleting that API would have had the driver collected as garbage.
func (o *operator) disown(ctx context.Context, c *clients, object *unstructured.Unstructured) error {
	current := &metav1.PartialObjectMetadata{}
	current.SetGroupVersionKind(object.GroupVersionKind())
	err := c.objects.Get(ctx, client.ObjectKeyFromObject(object), current)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(current.OwnerReferences), func(owner metav1.OwnerReference) bool {
		return owner.Kind == "CustomResourceDefinition"
	})
	if len(kept) == len(current.OwnerReferences) {
		return nil
	}
	// The resource version makes sure that nobody else's change of the owners is lost.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": current.ResourceVersion, "ownerReferences": kept}})
	if err != nil {
		return err
	}
	if err := c.objects.Patch(ctx, current, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	o.recorder.Eventf("Adopted", "Adopted %s %s: it no longer goes when the API of the operator that made it goes", object.GetKind(), object.GetName())
	return nil
}
