package operator

import (
	"context"
	"crypto/sha256"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// optionalGroups are API groups that a cluster may lack; their objects are left out there.
var optionalGroups = sets.New("monitoring.coreos.com")

// applier brings objects to what is wanted of them, and writes nothing while they are like that.
type applier struct {
	*operator
	clients *clients
	applied map[string]revision // by kind and name
}

// revision is what is known of an object after it was applied; while the cluster shows the same,
// there is nothing to write.
type revision struct {
	wanted          [sha256.Size]byte
	uid             string
	resourceVersion string
}

func (o *operator) newApplier(c *clients) *applier {
	return &applier{operator: o, clients: c, applied: map[string]revision{}}
}

// apply returns the object as it is in the cluster then; nil where the cluster does not know its kind
// and need not.
func (a *applier) apply(ctx context.Context, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	document, err := wanted.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if err := drivers.CheckRendered(document); err != nil {
		return nil, err
	}
	hash, kind, name := sha256.Sum256(document), wanted.GetKind(), wanted.GetName()
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(wanted.GroupVersionKind())
	err = a.clients.objects.Get(ctx, client.ObjectKeyFromObject(wanted), current)
	switch {
	case meta.IsNoMatchError(err) && optionalGroups.Has(wanted.GroupVersionKind().Group):
		return nil, nil
	case err != nil && !apierrors.IsNotFound(err):
		return nil, err
	case err == nil && a.applied[kind+" "+name] == revisionOf(hash, current):
		return current, nil
	}
	existed := err == nil
	before := current.GetResourceVersion()
	live := wanted.DeepCopy()
	if err := a.clients.objects.Apply(ctx, client.ApplyConfigurationFromUnstructured(live), client.ForceOwnership, client.FieldOwner(a.driver.Operator.Name)); err != nil {
		return nil, err
	}
	switch {
	case !existed:
		a.recorder.Eventf(kind+"Created", "Created %s %s because it was missing", kind, name)
	case before != live.GetResourceVersion():
		a.recorder.Eventf(kind+"Updated", "Updated %s %s because it had changed", kind, name)
	}
	a.applied[kind+" "+name] = revisionOf(hash, live)
	return live, nil
}

func revisionOf(wanted [sha256.Size]byte, object *unstructured.Unstructured) revision {
	return revision{wanted: wanted, uid: string(object.GetUID()), resourceVersion: object.GetResourceVersion()}
}
