package operator

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
)

// managedByLabel marks the objects that the objects controller applies, so that it can watch just
// these: a change or a removal of any of them, or of the label itself, wakes it up.
const managedByLabel = "app.kubernetes.io/managed-by"

// customResourceDefinition is the kind of those assets that the Operator Lifecycle Manager installs
// with the operator, and that stay when the driver goes.
const customResourceDefinition = "CustomResourceDefinition"

// servedElsewhere are the kinds of assets that library-go has a controller for.
var servedElsewhere = sets.New("Deployment", "DaemonSet", "CredentialsRequest", "StorageClass")

// optionalGroups are API groups that a cluster may lack; their objects are left out there.
var optionalGroups = sets.New("monitoring.coreos.com")

// objectsController applies all the driver's objects that need no thought: accounts, permissions,
// the CSIDriver, monitoring. library-go's StaticResourceController is not used because it knows no
// SecurityContextConstraints, recreates a CSIDriver that somebody else has created, and takes a
// missing ClusterCSIDriver for a failure.
type objectsController struct {
	*operator
	clients   *clients
	manifests []drivers.Manifest
	applied   map[string]revision // by asset file
	// ready is closed when all objects have been applied once.
	ready chan struct{}
}

// revision is what is known of an object after it was applied; while the cluster shows the same,
// there is nothing to write.
type revision struct {
	wanted          [sha256.Size]byte
	uid             string
	resourceVersion string
}

// newObjectsController returns the controller and a channel that is closed when all objects have been
// applied once: pods that came before their accounts and permissions could only fail.
func (o *operator) newObjectsController(c *clients, manifests []drivers.Manifest) (factory.Controller, <-chan struct{}) {
	controller := &objectsController{operator: o, clients: c, applied: map[string]revision{}, ready: make(chan struct{})}
	watched := []factory.Informer{c.customResource.Informer()}
	for _, m := range manifests {
		if servedElsewhere.Has(m.Object.GetKind()) {
			continue
		}
		controller.manifests = append(controller.manifests, m)
		if informer := c.managedObjects(m.Object); informer != nil {
			watched = append(watched, informer)
		}
	}
	return factory.New().
		WithInformers(watched...).
		WithSync(controller.sync).
		ResyncEvery(time.Minute).
		WithSyncDegradedOnError(c.customResource).
		ToController(o.driver.ConditionPrefix+"DriverObjectsController", o.recorder), controller.ready
}

// sync brings every object to what its asset says. One that fails does not keep the others back.
func (c *objectsController) sync(ctx context.Context, _ factory.SyncContext) error {
	spec, _, _, err := c.clients.customResource.GetOperatorState()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if spec.ManagementState != operatorv1.Managed {
		return nil
	}
	var failed []error
	for _, m := range c.manifests {
		if ctx.Err() != nil {
			return nil // told to stop, which is no failure of the objects that are left
		}
		if err := c.apply(ctx, m); err != nil {
			failed = append(failed, fmt.Errorf("applying %s %s: %w", m.Object.GetKind(), m.Object.GetName(), err))
		}
	}
	if len(failed) > 0 {
		return utilerrors.NewAggregate(failed)
	}
	select {
	case <-c.ready:
	default:
		close(c.ready)
	}
	return nil
}

func (c *objectsController) apply(ctx context.Context, m drivers.Manifest) error {
	if err := drivers.CheckRendered(m.YAML); err != nil {
		return err
	}
	wanted := m.Object.DeepCopy()
	hash := sha256.Sum256(m.YAML)
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(wanted.GroupVersionKind())
	err := c.clients.objects.Get(ctx, client.ObjectKeyFromObject(wanted), current)
	switch {
	case meta.IsNoMatchError(err) && optionalGroups.Has(wanted.GroupVersionKind().Group):
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return err
	case err == nil && c.applied[m.File] == revisionOf(hash, current):
		return nil
	}
	existed := err == nil
	before := current.GetResourceVersion()
	if err := c.clients.objects.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted), client.ForceOwnership, client.FieldOwner(c.driver.Operator.Name)); err != nil {
		return err
	}
	switch {
	case !existed:
		c.recorder.Eventf(m.Object.GetKind()+"Created", "Created %s %s because it was missing", m.Object.GetKind(), m.Object.GetName())
	case before != wanted.GetResourceVersion():
		c.recorder.Eventf(m.Object.GetKind()+"Updated", "Updated %s %s because it had changed", m.Object.GetKind(), m.Object.GetName())
	}
	c.applied[m.File] = revisionOf(hash, wanted)
	return nil
}

func revisionOf(wanted [sha256.Size]byte, object *unstructured.Unstructured) revision {
	return revision{wanted: wanted, uid: string(object.GetUID()), resourceVersion: object.GetResourceVersion()}
}
