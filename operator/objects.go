package operator

import (
	"context"
	"fmt"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-csi/berth/drivers"
)

// managedByLabel marks the objects that the objects controller applies, so that it can watch just
// these: a change or a removal of any of them, or of the label itself, wakes it up.
const managedByLabel = "app.kubernetes.io/managed-by"

// servedElsewhere are the kinds of assets that have controllers of their own.
var servedElsewhere = sets.New("Deployment", "DaemonSet", "CredentialsRequest", "StorageClass")

// objectsController applies all the driver's objects that need no thought: accounts, permissions,
// the CSIDriver, monitoring. library-go's StaticResourceController is not used because it knows no
// SecurityContextConstraints, recreates a CSIDriver that somebody else has created, and takes a
// missing ClusterCSIDriver for a failure.
type objectsController struct {
	*applier
	manifests []drivers.Manifest
	// ready is closed when all objects have been applied once.
	ready chan struct{}
}

// newObjectsController returns the controller and a channel that is closed when all objects have been
// applied once: pods that came before their accounts and permissions could only fail.
func (o *operator) newObjectsController(c *clients, manifests []drivers.Manifest) (factory.Controller, <-chan struct{}) {
	controller := &objectsController{applier: o.newApplier(c), ready: make(chan struct{})}
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
		if _, err := c.apply(ctx, m.Object); err != nil {
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
