package controllers

import (
	"context"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/objects"
)

type adoption struct {
	applier   *objects.Applier
	manifests []drivers.Manifest
	left      bool
}

// NewAdoption returns the controller that adopts objects of an earlier operator whose adoption the API server refused
// at first, for example because of a policy. left says that there are such objects.
func NewAdoption(name string, applier *objects.Applier, manifests []drivers.Manifest, left bool, operatorClient v1helpers.OperatorClient, recorder events.Recorder) factory.Controller {
	c := &adoption{applier: applier, manifests: manifests, left: left}
	return factory.New().
		WithInformers(operatorClient.Informer()).
		WithSync(c.sync).
		ResyncEvery(time.Minute).
		WithSyncDegradedOnError(operatorClient).
		ToController(name, recorder)
}

func (c *adoption) sync(ctx context.Context, _ factory.SyncContext) error {
	if !c.left {
		return nil
	}
	unadopted, err := c.applier.Unadopted(ctx, c.manifests)
	if err != nil {
		return err
	}
	refused, err := c.applier.Adopt(ctx, unadopted)
	if err != nil {
		return err
	}
	c.left = refused != nil
	return refused
}
