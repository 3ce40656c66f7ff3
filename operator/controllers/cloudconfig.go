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
	coreinformers "k8s.io/client-go/informers/core/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/objects"
)

// A CloudConfig fills the driver's ConfigMap. It is ready once the cache shows the complete ConfigMap, or after several failures. A pod
// that is created before that would have to be replaced at once.
type CloudConfig struct {
	factory.Controller
	options CloudConfigOptions
	ready   *objects.Readiness
}

// CloudConfigOptions are the dependencies of the controller.
type CloudConfigOptions struct {
	Name   string
	Config *drivers.CloudConfig
	// Cloud has the ConfigMap in which OpenShift publishes the configuration of the cloud.
	Cloud coreinformers.ConfigMapInformer
	// Source has the ConfigMap with which an administrator configures the driver; nil if there is none.
	Source coreinformers.ConfigMapInformer
	// Asked queries the cloud. It is needed only if Config has a Discovery.
	Asked          CloudDiscovery
	Target         *objects.WatchedObject // the driver's
	Applier        *objects.Applier
	OperatorClient v1helpers.OperatorClient
	Recorder       events.Recorder
}

// NewCloudConfig returns the controller that fills the driver's ConfigMap with the parts of the cloud's configuration
// that its pods need. An example is the CA bundle: in some regions of AWS, endpoints have certificates of a private
// certificate authority.
func NewCloudConfig(options CloudConfigOptions) *CloudConfig {
	c := &CloudConfig{options: options, ready: objects.NewReadiness()}
	watched := append(options.Target.Informers(), options.OperatorClient.Informer(), options.Cloud.Informer())
	if options.Source != nil {
		watched = append(watched, options.Source.Informer())
	}
	if options.Config.Discovery != nil {
		watched = append(append(watched, options.Asked.Secret.Informer()), options.Asked.Triggers...)
	}
	c.Controller = factory.New().
		WithInformers(watched...).
		WithSync(c.sync).
		ResyncEvery(time.Minute). // for a write that no watch ever shows, because etcd was restored to the version before
		WithSyncDegradedOnError(options.OperatorClient).
		ToController(options.Name, options.Recorder)
	return c
}

// Ready returns a channel that is closed once the controller is ready.
func (c *CloudConfig) Ready() <-chan struct{} { return c.ready.Done() }

// Informers returns the informers whose events show changes of the driver's ConfigMap.
func (c *CloudConfig) Informers() []factory.Informer { return c.options.Target.Informers() }

// Content returns the content of the driver's ConfigMap, empty if there is nothing in it.
func (c *CloudConfig) Content() map[string]string {
	return dataOf(c.options.Target.Cached())
}

func dataOf(configMap *unstructured.Unstructured) map[string]string {
	if configMap == nil {
		return nil
	}
	content, _, _ := unstructured.NestedStringMap(configMap.Object, "data")
	return content
}

func (c *CloudConfig) sync(ctx context.Context, _ factory.SyncContext) error {
	cloud, err := contentOf(c.options.Cloud, drivers.CloudConfigNamespace, drivers.CloudConfigName)
	if err != nil {
		return err
	}
	source, err := contentOf(c.options.Source, drivers.DriverConfigNamespace, c.options.Config.Source)
	if err != nil {
		return err
	}
	target, err := c.options.Applier.Get(ctx, c.options.Target)
	if err != nil {
		return err
	}
	current := dataOf(target)
	if d := c.options.Config.Discovery; d != nil && target == nil && d.Needed(cloud, source) {
		current, err = c.options.Asked.find(ctx, d, cloud, source)
		if ctx.Err() != nil || errors.Is(err, errNoCloudCredentials) { // the Secret's creation triggers the next sync; another controller reports that it is missing
			return nil
		}
		if err != nil {
			return err
		}
	}
	content, err := c.options.Config.Content(cloud, source, current)
	if err != nil { // with this configuration, the driver would exit
		c.ready.Fail()
		return fmt.Errorf("the driver keeps the configuration of the cloud that it has: %w", err)
	}
	desired := c.options.Target.Desired.DeepCopy()
	if len(content) > 0 {
		if err := unstructured.SetNestedStringMap(desired.Object, content, "data"); err != nil {
			return err
		}
	}
	live, err := c.options.Applier.Apply(ctx, c.options.Target, desired)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		c.ready.Fail()
		return fmt.Errorf("writing the configuration of the cloud to ConfigMap %s/%s: %w", desired.GetNamespace(), desired.GetName(), err)
	}
	if cached := c.options.Target.Cached(); cached != nil && cached.GetResourceVersion() == live.GetResourceVersion() {
		c.ready.Set()
	}
	return nil
}

// contentOf returns the content of a ConfigMap, nil if there is none.
func contentOf(informer coreinformers.ConfigMapInformer, namespace, name string) (map[string]string, error) {
	if informer == nil {
		return nil, nil
	}
	found, err := informer.Lister().ConfigMaps(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if found.Data == nil {
		return map[string]string{}, nil // it exists
	}
	return found.Data, nil
}
