// Package clustercsidriver is the operator's access to the driver's ClusterCSIDriver: it watches the object, reads the
// desired state from it, and writes the operator's finalizer and annotations to it. It also writes the object's status:
// the conditions that the controllers report, and their summary in Available, Progressing and Degraded.
//
// The process watches the object once. Each cycle of the operator gets its own client of that watch, so that no event
// handler outlives the controllers that added it.
package clustercsidriver

import (
	"context"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/genericoperatorclient"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/operator/transport"
)

// Resource is the resource of ClusterCSIDrivers.
var Resource = operatorv1.GroupVersion.WithResource("clustercsidrivers")

// A Watch caches the driver's ClusterCSIDriver.
type Watch struct {
	name     string
	client   v1helpers.OperatorClientWithFinalizers
	resource dynamic.ResourceInterface
	changed  chan struct{}
}

// Start watches the ClusterCSIDriver of one name until ctx ends. It returns once the cache has synced.
func Start(ctx context.Context, cfg *rest.Config, name string, clock clock.PassiveClock) (*Watch, error) {
	client, informers, err := genericoperatorclient.NewClusterScopedOperatorClientWithConfigName(
		clock, transport.WithOnlyName(cfg, Resource.Resource, name), Resource,
		operatorv1.GroupVersion.WithKind("ClusterCSIDriver"), name, extractSpec, extractStatus)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	w := &Watch{name: name, client: client, resource: dynamicClient.Resource(Resource), changed: make(chan struct{}, 1)}
	informer := client.Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.notify() },
		UpdateFunc: func(any, any) { w.notify() },
		DeleteFunc: func(any) { w.notify() },
	}); err != nil {
		return nil, err
	}
	informers.Start(ctx.Done())
	cache.WaitFor(ctx, "", informer.HasSyncedChecker())
	return w, nil
}

func (w *Watch) notify() {
	select {
	case w.changed <- struct{}{}:
	default: // a notification is pending
	}
}

// Changed returns a channel that receives a value after the ClusterCSIDriver was created, changed or deleted.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// DesiredState returns what the ClusterCSIDriver asks for now. A permanent driver cannot be removed.
func (w *Watch) DesiredState(permanent bool) DesiredState { return desiredState(w.cached(), permanent) }

// Metadata returns the metadata of the ClusterCSIDriver, nil if there is none.
func (w *Watch) Metadata() (*metav1.ObjectMeta, error) {
	metadata, err := w.client.GetObjectMeta()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return metadata, err
}

// cached returns the object in the cache, nil if there is none.
func (w *Watch) cached() *unstructured.Unstructured {
	object, exists, _ := w.client.Informer().GetStore().GetByKey(w.name) // a store in memory returns no errors
	if !exists {
		return nil
	}
	return object.(*unstructured.Unstructured)
}

// A Client is the operator client of one cycle. All clients share one watch.
type Client struct {
	v1helpers.OperatorClientWithFinalizers
	watch    *Watch
	informer *informer
}

// NewClient returns a client to be closed at the end of the cycle.
func (w *Watch) NewClient() *Client {
	return &Client{OperatorClientWithFinalizers: w.client, watch: w, informer: &informer{SharedIndexInformer: w.client.Informer()}}
}

// Close removes all event handlers that were added to the client's informer.
func (c *Client) Close() { c.informer.removeEventHandlers() }

// Informer returns the informer of the shared watch. Close removes the handlers that are added to it.
func (c *Client) Informer() cache.SharedIndexInformer { return c.informer }

// Resource returns the client for requests that library-go's client does not make.
func (c *Client) Resource() dynamic.ResourceInterface { return c.watch.resource }

// Name returns the name of the ClusterCSIDriver.
func (c *Client) Name() string { return c.watch.name }

// Get returns a copy of the ClusterCSIDriver in the cache.
func (c *Client) Get() (*operatorv1.ClusterCSIDriver, error) {
	object := c.watch.cached()
	if object == nil {
		return nil, apierrors.NewNotFound(Resource.GroupResource(), c.watch.name)
	}
	return convert(object)
}

func convert(object *unstructured.Unstructured) (*operatorv1.ClusterCSIDriver, error) {
	driver := &operatorv1.ClusterCSIDriver{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, driver); err != nil {
		return nil, fmt.Errorf("reading ClusterCSIDriver %s: %w", object.GetName(), err)
	}
	return driver, nil
}

// extractSpec and extractStatus return the fields of a ClusterCSIDriver that a field manager owns, for library-go's
// server-side apply.
func extractSpec(object *unstructured.Unstructured, fieldManager string) (*applyoperatorv1.OperatorSpecApplyConfiguration, error) {
	owned, err := extract(object, fieldManager, "")
	if err != nil || owned.Spec == nil {
		return nil, err
	}
	return &owned.Spec.OperatorSpecApplyConfiguration, nil
}

func extractStatus(object *unstructured.Unstructured, fieldManager string) (*applyoperatorv1.OperatorStatusApplyConfiguration, error) {
	owned, err := extract(object, fieldManager, "status")
	if err != nil || owned.Status == nil {
		return nil, err
	}
	return &owned.Status.OperatorStatusApplyConfiguration, nil
}

func extract(object *unstructured.Unstructured, fieldManager, subresource string) (*applyoperatorv1.ClusterCSIDriverApplyConfiguration, error) {
	driver, err := convert(object)
	if err != nil {
		return nil, err
	}
	return applyoperatorv1.ExtractClusterCSIDriverFrom(driver, fieldManager, subresource)
}
