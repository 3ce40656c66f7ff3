package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/berth-csi/berth/operator/objects"
)

// SnapshotClassKind is the kind of the controller's objects.
const SnapshotClassKind = "VolumeSnapshotClass"

type snapshotClass struct {
	ClassOptions
	sighting *objects.Sighting // of the class that may be the default
}

// NewSnapshotClass returns the controller of the driver's VolumeSnapshotClasses. A driver needs it if its snapshots
// depend on the cluster's configuration, or if its class is the default of a fresh cluster.
func NewSnapshotClass(options ClassOptions) factory.Controller {
	c := &snapshotClass{ClassOptions: options, sighting: &objects.Sighting{IsDefault: isDefaultSnapshotClass}}
	return factory.New().
		WithInformers(c.Reporter.Informer(), c.Infrastructures).
		WithInformers(classInformers(c.Classes, c.Default, c.sighting)...).
		WithSync(c.sync).
		ResyncEvery(time.Minute). // for a cluster that gets the snapshot API later
		WithSyncDegradedOnError(c.Reporter).
		ToController(c.Driver.ConditionPrefix+"DriverSnapshotClassController", c.Recorder)
}

func (c *snapshotClass) sync(ctx context.Context, _ factory.SyncContext) error {
	cluster, err := c.Observe()
	if err != nil {
		return err
	}
	var errs []error
	for _, class := range c.Classes {
		desired, err := withParameters(class.Desired, c.Driver.SnapshotParameters, cluster)
		if err != nil {
			return err
		}
		if desired.GetName() == c.Default {
			err = c.applyDefault(ctx, cluster, class, desired)
		} else {
			_, err = c.Applier.Apply(ctx, class, desired)
		}
		if apierrors.IsConflict(err) {
			class.Expire()
			err = factory.SyntheticRequeueError
		}
		if errors.Is(err, factory.SyntheticRequeueError) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			errs = append(errs, fmt.Errorf("applying %s %s: %w", SnapshotClassKind, desired.GetName(), err))
		}
	}
	return utilerrors.NewAggregate(errs)
}
