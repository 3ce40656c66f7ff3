package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// managed tells whether this operator looks after an object.
func (o *operator) managed(object metav1.Object) bool {
	return object.GetLabels()[managedByLabel] == o.driver.Operator.Name
}

// ours tells whether an object is one that this operator, or an earlier one of this driver, made.
func (o *operator) ours(object metav1.Object) bool {
	return o.managed(object) || o.driver.History.Marks(object)
}

// relics returns those of the driver's objects that an earlier operator made and that nobody has taken
// over yet.
func (o *operator) relics(ctx context.Context, c *clients, manifests []drivers.Manifest) ([]*metav1.PartialObjectMetadata, error) {
	var found []*metav1.PartialObjectMetadata
	for _, m := range manifests {
		if !o.driver.History.Marks(m.Object) {
			continue // no earlier operator made one
		}
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(m.Object.GroupVersionKind())
		err := c.objects.Get(ctx, client.ObjectKeyFromObject(m.Object), object)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", m.Object.GetKind(), m.Object.GetName(), err)
		}
		if o.ours(object) && !o.managed(object) {
			object.SetGroupVersionKind(m.Object.GroupVersionKind()) // the answer has none
			found = append(found, object)
		}
	}
	return found, nil
}

// adopt makes relics this operator's own, each in one write: it gets the label, and loses the owners whose
// end would be its own. The community operator made a CustomResourceDefinition the owner of its driver:
// deleting that API would have had the driver collected as garbage. All else about an object that exists
// is the business of the ordinary apply path.
func (o *operator) adopt(ctx context.Context, c *clients, relics []*metav1.PartialObjectMetadata) error {
	for _, relic := range relics {
		kind, name, uid := relic.GroupVersionKind(), relic.Name, relic.UID
		err := retry.RetryOnConflict(conflictBackoff, func() error {
			err := o.adoptOne(ctx, c, relic)
			if !apierrors.IsConflict(err) {
				return err
			}
			// Others may write its status at any time.
			again := c.objects.Get(ctx, client.ObjectKeyFromObject(relic), relic)
			relic.SetGroupVersionKind(kind) // the answer has none
			switch {
			case again != nil:
				return again
			case relic.UID != uid || !o.ours(relic):
				return fmt.Errorf("it is not the object any more that it was, UID %s: %v", uid, err)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("adopting %s %s: %w", kind.Kind, name, err)
		}
		adoptedObjects.WithLabelValues(o.driver.CSIName, kind.Kind).Inc()
		o.recorder.Eventf("Adopted", "Took over %s %s, which an earlier operator of the driver made", kind.Kind, name)
	}
	return nil
}

// adoptOne writes what adoption changes about an object, unless that is not as it was read.
func (o *operator) adoptOne(ctx context.Context, c *clients, relic *metav1.PartialObjectMetadata) error {
	owners := slices.DeleteFunc(slices.Clone(relic.OwnerReferences), func(owner metav1.OwnerReference) bool {
		return owner.Kind == "CustomResourceDefinition"
	})
	// The resource version makes sure that nobody else's change of the owners is lost.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": relic.ResourceVersion, "ownerReferences": owners,
		"labels": map[string]any{managedByLabel: o.driver.Operator.Name},
	}})
	if err != nil {
		return err
	}
	return c.objects.Patch(ctx, relic.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
}
