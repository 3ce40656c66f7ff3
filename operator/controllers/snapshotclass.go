package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/objects"
)

// SnapshotClassKind is the kind of the controller's objects.
const SnapshotClassKind = "VolumeSnapshotClass"

type snapshotClass struct {
	SnapshotClassOptions
	sighting *objects.Sighting // of the class that may be the default
}

// SnapshotClassOptions are the dependencies of the controller.
type SnapshotClassOptions struct {
	Name   string
	Driver drivers.Driver
	// Classes are watched.
	Classes []*objects.WatchedObject
	// Observe returns the configuration of the cluster, and Infrastructures is triggered when that changes.
	Observe         func() (drivers.Cluster, error)
	Infrastructures factory.Informer
	// Default names the class that is the driver's default in a fresh cluster; "" for none.
	Default string
	// CustomResource writes the ClusterCSIDriver.
	CustomResource dynamic.ResourceInterface
	Reader         client.Reader
	Applier        *objects.Applier
	OperatorClient v1helpers.OperatorClient
	Recorder       events.Recorder
}

// NewSnapshotClass returns the controller of the driver's VolumeSnapshotClasses. A driver needs it if its snapshots
// depend on the cluster's configuration, or if its class is the default of a fresh cluster.
func NewSnapshotClass(options SnapshotClassOptions) factory.Controller {
	c := &snapshotClass{SnapshotClassOptions: options, sighting: &objects.Sighting{IsDefault: isDefaultSnapshotClass}}
	return factory.New().
		WithInformers(options.OperatorClient.Informer(), options.Infrastructures).
		WithInformers(classInformers(options.Classes, options.Default, c.sighting)...).
		WithSync(c.sync).
		ResyncEvery(time.Minute). // for a cluster that gets the snapshot API later
		WithSyncDegradedOnError(options.OperatorClient).
		ToController(options.Name, options.Recorder)
}

func (c *snapshotClass) sync(ctx context.Context, _ factory.SyncContext) error {
	cluster, err := c.Observe()
	if err != nil {
		return err
	}
	var errs []error
	for _, class := range c.Classes {
		desired := class.Desired.DeepCopy()
		if parameters := c.Driver.SnapshotParameters; parameters != nil {
			for name, value := range parameters(cluster) {
				if err := unstructured.SetNestedField(desired.Object, value, "parameters", name); err != nil {
					return err
				}
			}
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
