// Package snapshotclass has the controller of the driver's VolumeSnapshotClasses, for drivers whose snapshots depend on the
// cluster's configuration.
package snapshotclass

import (
	"context"
	"fmt"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/objects"
)

// Kind is that of the objects of the controller.
const Kind = "VolumeSnapshotClass"

// Options are what the controller needs.
type Options struct {
	Name   string
	Driver drivers.Driver
	// Classes are watched.
	Classes []*objects.WatchedObject
	// Observe returns the configuration of the cluster, and Infrastructures is triggered when that changes.
	Observe         func() (drivers.Cluster, error)
	Infrastructures factory.Informer
	Applier         *objects.Applier
	OperatorClient  v1helpers.OperatorClient
	Recorder        events.Recorder
}

// NewController returns the controller.
func NewController(options Options) factory.Controller {
	informers := []factory.Informer{options.OperatorClient.Informer(), options.Infrastructures}
	for _, class := range options.Classes {
		informers = append(informers, class.Informers()...)
	}
	return factory.New().
		WithInformers(informers...).
		WithSync(options.sync).
		ResyncEvery(time.Minute). // for a cluster that gets the snapshot API later
		WithSyncDegradedOnError(options.OperatorClient).
		ToController(options.Name, options.Recorder)
}

func (o Options) sync(ctx context.Context, _ factory.SyncContext) error {
	cluster, err := o.Observe()
	if err != nil {
		return err
	}
	var errs []error
	for _, class := range o.Classes {
		desired := class.Desired.DeepCopy()
		for name, value := range o.Driver.SnapshotParameters(cluster) {
			if err := unstructured.SetNestedField(desired.Object, value, "parameters", name); err != nil {
				return err
			}
		}
		if _, err := o.Applier.Apply(ctx, class, desired); err != nil && ctx.Err() == nil {
			errs = append(errs, fmt.Errorf("applying %s %s: %w", Kind, desired.GetName(), err))
		}
	}
	return utilerrors.NewAggregate(errs)
}
