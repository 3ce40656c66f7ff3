package operator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-csi/berth/drivers"
)

// managedByLabel marks the objects that this operator has made, or made its own.
const managedByLabel = "app.kubernetes.io/managed-by"

// servedElsewhere are the kinds of assets that have controllers of their own.
var servedElsewhere = sets.New("Deployment", "DaemonSet", "CredentialsRequest", "StorageClass")

// objectsController applies all the driver's objects that need no thought: accounts, permissions,
// the CSIDriver, monitoring. library-go's StaticResourceController is not used because it knows no
// SecurityContextConstraints, recreates a CSIDriver that somebody else has created, and takes a
// missing ClusterCSIDriver for a failure.
type objectsController struct {
	*operator
	clients *clients
	// waves are the objects in groups. Those of one are applied at the same time, as the API server
	// makes each write that is about permissions wait for up to a tenth of a second, and the groups one
	// after the other.
	waves [3][]*followed
	// ready is closed when all objects have been applied once.
	ready chan struct{}
}

// waveOf are the waves of the kinds that are not in the second one: the API server refuses what is in a
// namespace that is not there, and lets us bind only a role of which it can see that we have all the
// permissions ourselves.
var waveOf = map[string]int{"Namespace": firstWave, "RoleBinding": lastWave, "ClusterRoleBinding": lastWave}

const (
	firstWave = iota
	otherWave
	lastWave
)

// newObjectsController returns the controller and a channel that is closed when all objects have been
// applied once: pods that came before their accounts and permissions could only fail.
func (o *operator) newObjectsController(c *clients, manifests []drivers.Manifest) (factory.Controller, <-chan struct{}) {
	controller := &objectsController{operator: o, clients: c, ready: make(chan struct{})}
	watched := []factory.Informer{c.customResource.Informer()}
	for _, m := range manifests {
		if servedElsewhere.Has(m.Object.GetKind()) {
			continue
		}
		wave, special := waveOf[m.Object.GetKind()]
		if !special {
			wave = otherWave
		}
		object := c.follow(m.Object)
		controller.waves[wave] = append(controller.waves[wave], object)
		watched = append(watched, object.informers()...)
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
	for _, wave := range c.waves {
		failed = append(failed, c.applyAll(ctx, wave)...)
	}
	if ctx.Err() != nil {
		return nil // told to stop, which is no failure of the objects that are left
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

// applyAll applies objects at the same time, and returns an error for each that it could not apply.
func (c *objectsController) applyAll(ctx context.Context, objects []*followed) []error {
	errs := make([]error, len(objects))
	var applying sync.WaitGroup
	for i, object := range objects {
		applying.Go(func() {
			if _, err := c.apply(ctx, c.clients, object, object.wanted); err != nil {
				errs[i] = fmt.Errorf("applying %s %s: %w", object.wanted.GetKind(), object.wanted.GetName(), err)
			}
		})
	}
	applying.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}
