// Package controller writes the driver's configuration, a file in a Secret, from the cloud's configuration and
// credentials (config.go), and checks whether the vCenters meet the driver's requirements (check.go).
package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/berth-csi/berth/drivers/controller"
)

// New returns vSphere's own code.
func New() controller.Own {
	return controller.Own{Classes: classes, New: func(d controller.Dependencies) []factory.Controller { return []factory.Controller{newConfiguration(d)} }}
}

// A configuration writes the driver's configuration to its Secret.
type configuration struct {
	controller.Dependencies
	secret controller.Secret
}

func newConfiguration(d controller.Dependencies) factory.Controller {
	c := &configuration{d, d.Fill(d.Driver.Configuration.Secret)}
	return factory.New().
		WithInformers(append(d.Triggers(d.Driver.Configuration.Credentials), append(c.secret.Informers(), d.Reporter.Informer())...)...).
		WithSync(c.sync).
		ResyncEvery(time.Minute). // in case etcd was restored to the version before a write: no watch shows that
		WithSyncDegradedOnError(d.Reporter).
		ToController(d.Driver.ConditionPrefix+"DriverConfigurationController", d.Recorder)
}

func (c *configuration) sync(ctx context.Context, _ factory.SyncContext) error {
	err := c.apply(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		c.secret.Fail()
		return fmt.Errorf("the driver keeps the configuration that it has, in Secret %s/%s: %w", c.Namespace, c.Driver.Configuration.Secret, err)
	}
	return nil
}

func (c *configuration) apply(ctx context.Context) error {
	name := c.Driver.Configuration.Credentials
	cloud, err := c.Cloud(name)
	if err != nil {
		return err
	}
	if cloud.Credentials == nil {
		return fmt.Errorf("there are no credentials yet: Secret %s/%s is missing; the cloud credential operator creates it, or an administrator where that is in manual mode", c.Namespace, name)
	}
	content, err := Content(cloud)
	if err != nil {
		return err
	}
	return c.secret.Apply(ctx, content)
}
