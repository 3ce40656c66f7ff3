package operator

import (
	"context"
	"crypto/sha256"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// optionalGroups are API groups that a cluster may lack; their objects are left out there.
var optionalGroups = sets.New("monitoring.coreos.com")

// apply brings an object to what is wanted of it, and writes nothing while it is like that. It returns
// the object as it is in the cluster then, not to be changed; nil where the cluster does not know its
// kind and need not. It may be called for several objects at a time.
func (o *operator) apply(ctx context.Context, c *clients, object *followed, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	document, err := wanted.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if err := drivers.CheckRendered(document); err != nil {
		return nil, err
	}
	hash, kind, name := sha256.Sum256(document), wanted.GetKind(), wanted.GetName()
	current, err := object.look(ctx, o, c)
	switch {
	case meta.IsNoMatchError(err) && optionalGroups.Has(wanted.GroupVersionKind().Group):
		return nil, nil
	case err != nil:
		return nil, err
	case current != nil && object.applied == revisionOf(hash, current):
		return current, nil
	}
	live, err := o.write(ctx, c.objects, wanted)
	if apierrors.IsInvalid(err) && current != nil && (drivers.Manifest{Object: wanted}).Recreated() {
		live, err = o.remake(ctx, c, wanted, current, err)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case current == nil:
		o.recorder.Eventf(kind+"Created", "Created %s %s because it was missing", kind, name)
	case live.GetUID() != current.GetUID():
		// remake has told
	case !sameContent(current, live):
		o.recorder.Eventf(kind+"Updated", "Updated %s %s because it had changed", kind, name)
	}
	object.applied = revisionOf(hash, live)
	return live, nil
}

func (o *operator) write(ctx context.Context, c client.Client, wanted *unstructured.Unstructured, options ...client.ApplyOption) (*unstructured.Unstructured, error) {
	live := wanted.DeepCopy()
	options = append(options, client.ForceOwnership, client.FieldOwner(o.driver.Operator.Name))
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(live), options...)
	return live, err
}

// remake deletes an object that cannot be changed to what is wanted, and creates it, if the API server
// would take it as a new one. refusal is why it cannot be changed. While the object is missing, which is for the time
// of one request, running pods keep their volumes, and whatever needs the object is tried again by whoever needs it.
func (o *operator) remake(ctx context.Context, c *clients, wanted, current *unstructured.Unstructured, refusal error) (*unstructured.Unstructured, error) {
	trial := wanted.DeepCopy()
	trial.SetName(drivers.TrialName(wanted.GetName()))
	if _, err := o.write(ctx, c.objects, trial, client.DryRunAll); err != nil {
		return nil, refusal // it is what is wanted that is wrong
	}
	uid, version := current.GetUID(), current.GetResourceVersion()
	err := c.objects.Delete(ctx, current, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if err != nil {
		return nil, err
	}
	o.recorder.Warningf(wanted.GetKind()+"Remade", "Deleted %s %s to make it anew, because it could not be changed to what the driver needs: %v",
		wanted.GetKind(), wanted.GetName(), refusal)
	return o.write(ctx, c.objects, wanted)
}

// sameContent tells whether two versions of an object say the same, whoever said it, and whatever has come
// of it.
func sameContent(a, b *unstructured.Unstructured) bool {
	content := func(object *unstructured.Unstructured) map[string]any {
		object = object.DeepCopy()
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		object.SetGeneration(0)
		delete(object.Object, "status")
		return object.Object
	}
	return equality.Semantic.DeepEqual(content(a), content(b))
}
