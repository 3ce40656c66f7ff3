// Package adoption has the controller that adopts those objects of an earlier operator that the API server refused to have
// adopted at first, for example because of a policy.
package adoption

import (
	"context"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/objects"
)

type controller struct {
	applier   *objects.Applier
	manifests []drivers.Manifest
	left      bool
}

// NewController returns the controller. left says whether there is anything left to adopt. Its condition names what is
// refused, and why, for as long as it is.
func NewController(name string, applier *objects.Applier, manifests []drivers.Manifest, left bool, operatorClient v1helpers.OperatorClient, recorder events.Recorder) factory.Controller {
	c := &controller{applier: applier, manifests: manifests, left: left}
	return factory.New().
		WithInformers(operatorClient.Informer()).
		WithSync(c.sync).
		ResyncEvery(time.Minute).
		WithSyncDegradedOnError(operatorClient).
		ToController(name, recorder)
}

func (c *controller) sync(ctx context.Context, _ factory.SyncContext) error {
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
