// Package configuration has the controller that makes the driver's configuration, a file in a Secret, from the configuration
// of the cloud and the credentials for it.
package configuration

import (
	"context"
	"fmt"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/clustercsidriver"
	"github.com/berth-csi/berth/operator/objects"
)

// A Controller makes the configuration. It is ready once that is complete and the cache shows it, or has failed several times:
// a pod that was made earlier would have to be replaced at once.
type Controller struct {
	factory.Controller
	Options
	ready *objects.Readiness
}

// Options are the dependencies of the controller.
type Options struct {
	Driver    drivers.Driver
	Namespace string // the driver's
	// Secret is the one to fill, and Credentials the informer of the one with the credentials.
	Secret      *objects.WatchedObject
	Credentials coreinformers.SecretInformer
	// Cloud returns what the cluster knows of the cloud, without credentials, and Triggers are informers of that.
	Cloud    func() (drivers.Cloud, error)
	Triggers []factory.Informer
	Applier  *objects.Applier
	Reporter *clustercsidriver.Reporter
	Recorder events.Recorder
}

// NewController returns the controller.
func NewController(options Options) *Controller {
	c := &Controller{Options: options, ready: objects.NewReadiness()}
	c.Controller = factory.New().
		WithInformers(append(options.Triggers, append(options.Secret.Informers(), options.Reporter.Informer(), options.Credentials.Informer())...)...).
		WithSync(c.sync).
		ResyncEvery(time.Minute). // for a write that no watch ever shows, because etcd was restored to the version before
		WithSyncDegradedOnError(options.Reporter).
		ToController(options.Driver.ConditionPrefix+"DriverConfigurationController", options.Recorder)
	return c
}

// Ready is closed once the controller is ready.
func (c *Controller) Ready() <-chan struct{} { return c.ready.Done() }

// Informers are triggered when the configuration changes.
func (c *Controller) Informers() []factory.Informer { return c.Secret.Informers() }

func (c *Controller) sync(ctx context.Context, _ factory.SyncContext) error {
	err := c.apply(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		c.ready.Fail()
		return fmt.Errorf("the driver keeps the configuration that it has, in Secret %s/%s: %w", c.Namespace, c.Driver.Configuration.Secret, err)
	}
	return nil
}

func (c *Controller) apply(ctx context.Context) error {
	cloud, err := c.Cloud()
	if err != nil {
		return err
	}
	name := c.Driver.Configuration.Credentials
	credentials, err := c.Credentials.Lister().Secrets(c.Namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there are no credentials yet: Secret %s/%s is missing; the cloud credential operator creates it, or an administrator where that is in manual mode", c.Namespace, name)
	}
	if err != nil {
		return err
	}
	cloud.Credentials = credentials.Data
	content, err := c.Driver.Configuration.Content(cloud)
	if err != nil {
		return err
	}
	data, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		Data map[string][]byte `json:"data"`
	}{content})
	if err != nil {
		return err
	}
	desired := c.Secret.Desired.DeepCopy()
	desired.Object["data"] = data["data"]
	live, err := c.Applier.Apply(ctx, c.Secret, desired)
	if err != nil {
		return err
	}
	if cached := c.Secret.Cached(); cached != nil && cached.GetResourceVersion() == live.GetResourceVersion() {
		c.ready.Set()
	}
	return nil
}
