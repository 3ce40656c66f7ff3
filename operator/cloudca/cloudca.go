// Package cloudca has the controller that copies the CA bundle of the cloud to the driver's namespace, where the driver's
// pods mount it. A cloud has one if its endpoints have certificates of a private certificate authority, as in some
// regions of AWS.
package cloudca

import (
	"context"
	"fmt"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/objects"
)

// A Controller copies the bundle. It is ready once the copy is complete and the cache shows it, or has failed several times:
// a pod that was made earlier would have to be replaced at once.
type Controller struct {
	factory.Controller
	source  coreinformers.ConfigMapInformer
	target  *objects.WatchedObject
	applier *objects.Applier
	ready   *objects.Readiness
}

// NewController returns the controller. source has the ConfigMap in which OpenShift publishes the cloud's configuration,
// and target is the driver's.
func NewController(name string, source coreinformers.ConfigMapInformer, target *objects.WatchedObject, applier *objects.Applier, operatorClient v1helpers.OperatorClient, recorder events.Recorder) *Controller {
	c := &Controller{source: source, target: target, applier: applier, ready: objects.NewReadiness()}
	c.Controller = factory.New().
		WithInformers(append(target.Informers(), operatorClient.Informer(), source.Informer())...).
		WithSync(c.sync).
		ResyncEvery(time.Minute). // for a write that no watch ever shows, because etcd was restored to the version before
		WithSyncDegradedOnError(operatorClient).
		ToController(name, recorder)
	return c
}

// Ready is closed once the controller is ready.
func (c *Controller) Ready() <-chan struct{} { return c.ready.Done() }

// Informers are triggered when the copy changes.
func (c *Controller) Informers() []factory.Informer { return c.target.Informers() }

// Bundle returns the content of the copy, "" if the cloud has no bundle.
func (c *Controller) Bundle() string {
	copied := c.target.Cached()
	if copied == nil {
		return ""
	}
	bundle, _, _ := unstructured.NestedString(copied.Object, "data", drivers.CABundleKey)
	return bundle
}

func (c *Controller) sync(ctx context.Context, _ factory.SyncContext) error {
	desired := c.target.Desired.DeepCopy()
	source, err := c.source.Lister().ConfigMaps(drivers.CloudConfigNamespace).Get(drivers.CloudConfigName)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err == nil {
		if bundle := source.Data[drivers.CABundleKey]; bundle != "" {
			if err := drivers.CheckCABundle(bundle); err != nil { // with it, the driver would exit
				c.ready.Fail()
				return fmt.Errorf("the driver keeps the CA bundle that it has: %w", err)
			}
			if err := unstructured.SetNestedField(desired.Object, bundle, "data", drivers.CABundleKey); err != nil {
				return err
			}
		}
	}
	live, err := c.applier.Apply(ctx, c.target, desired)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		c.ready.Fail()
		return fmt.Errorf("copying the CA bundle of the cloud to ConfigMap %s/%s: %w", desired.GetNamespace(), desired.GetName(), err)
	}
	if cached := c.target.Cached(); cached != nil && cached.GetResourceVersion() == live.GetResourceVersion() {
		c.ready.Set()
	}
	return nil
}
