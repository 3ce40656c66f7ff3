package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operatorNamespaceAnnotation on a ClusterCSIDriver tells the namespace of the operator that has claimed it,
// so that nobody has to look for it in namespaces that anybody can make. must-gather/gather goes by it.
const operatorNamespaceAnnotation = "berth.dev/operator-namespace"

// finalizer is the one that this operator puts on its ClusterCSIDriver.
func (o *operator) finalizer() string {
	return o.driver.Operator.Name + ".operator.openshift.io/uninstall"
}

// claim writes into the ClusterCSIDriver, all at once, what must be there before anything of the driver
// is made or changed: which namespaces driver and operator are in, and a
// finalizer, as something must see to its
// removal. Those of earlier operators, which nobody would ever remove, go. The namespace stays on record: neither an
// operator that comes back in another one nor one that was interrupted while it removed the driver loses any of its
// objects.
func (o *operator) claim(ctx context.Context, c *clients) error {
	custom, err := c.customResource.GetObjectMeta()
	if err != nil {
		return err
	}
	finalizers := custom.Finalizers
	if custom.DeletionTimestamp == nil {
		finalizers = append(o.foreignFinalizers(finalizers), o.finalizer())
	} // else none can be added any more, and whichever is there keeps the object until the driver is gone
	annotations := c.place.annotations()
	claimed := samePlace(custom.Annotations, annotations) && custom.Annotations[operatorNamespaceAnnotation] == o.namespace
	if claimed && sets.New(custom.Finalizers...).Equal(sets.New(finalizers...)) {
		return nil
	}
	annotations[operatorNamespaceAnnotation] = o.namespace
	if err := o.patchCustomResource(ctx, c, custom, map[string]any{
		"annotations": annotations, "finalizers": finalizers,
	}); err != nil {
		return fmt.Errorf("claiming ClusterCSIDriver %s: %w", o.driver.CSIName, err)
	}
	// library-go's controllers write the whole object as their cache shows it: one that does not show this
	// yet would undo it.
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		now, err := c.customResource.GetObjectMeta()
		return err == nil && now.ResourceVersion != custom.ResourceVersion, err
	})
}

// letGo removes the finalizers of this operator and of earlier ones from the ClusterCSIDriver.
func (o *operator) letGo(ctx context.Context, c *clients) error {
	custom, err := c.customResource.GetObjectMeta()
	if err != nil {
		return err
	}
	finalizers := o.foreignFinalizers(custom.Finalizers)
	if len(finalizers) == len(custom.Finalizers) {
		return nil
	}
	if err := o.patchCustomResource(ctx, c, custom, map[string]any{"finalizers": finalizers}); err != nil {
		return fmt.Errorf("letting ClusterCSIDriver %s go: %w", o.driver.CSIName, err)
	}
	return nil
}

// foreignFinalizers returns those that are neither this operator's nor an earlier one's.
func (o *operator) foreignFinalizers(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		return f == o.finalizer() || slices.Contains(o.driver.History.Finalizers, f)
	})
}

// patchCustomResource changes metadata of the ClusterCSIDriver, unless it is not as it was any more.
func (o *operator) patchCustomResource(ctx context.Context, c *clients, was *metav1.ObjectMeta, metadata map[string]any) error {
	metadata["resourceVersion"] = was.ResourceVersion
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	custom := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: o.driver.CSIName}}
	custom.SetGroupVersionKind(operatorv1.GroupVersion.WithKind("ClusterCSIDriver"))
	return c.objects.Patch(ctx, custom, client.RawPatch(types.MergePatchType, patch))
}
