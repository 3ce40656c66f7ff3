package clusterstorage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/openshift/library-go/pkg/operator/resource/resourcemerge"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/objects"
)

// A driverOperator holds the objects of one driver's operator, and their caches.
type driverOperator struct {
	desired    operatorObjects
	objects    []*objects.WatchedObject
	ready      *objects.Readiness // for the Deployment
	deployment *objects.WatchedObject
	// applied is the resource version of the Deployment when it was last applied, with the settings in proxy.
	applied string
	proxy   configv1.ProxyStatus
}

// newDriverOperator renders a driver's operator, and watches its objects until ctx ends.
func (c *controller) newDriverOperator(ctx context.Context, d drivers.Driver) (_ *driverOperator, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel() // the next attempt starts watches of its own
		}
	}()
	desired, err := render(d, c.process.Version, c.process.Getenv)
	if err != nil {
		return nil, err
	}
	o := &driverOperator{desired: desired, ready: objects.NewReadiness()}
	for _, object := range desired.objects {
		watched, err := c.cluster.watch(ctx, object)
		if err != nil {
			return nil, err
		}
		o.objects = append(o.objects, watched)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(desired.deployment)
	if err != nil {
		return nil, err
	}
	if o.deployment, err = c.cluster.watch(ctx, &unstructured.Unstructured{Object: content}); err != nil {
		return nil, err
	}
	waitForCaches(ctx, append(slices.Clone(o.objects), o.deployment))
	return o, nil
}

// cacheTimeout is how long the first sync of a driver's operator waits for its caches. An object whose cache has not synced is
// read from the API server.
const cacheTimeout = 10 * time.Second

// waitForCaches returns once the caches of all objects have synced, or after cacheTimeout. If the API server cannot
// list a kind, for example because its conversion webhook does not answer, the other kinds must not wait.
func waitForCaches(ctx context.Context, watched []*objects.WatchedObject) {
	ctx, cancel := context.WithTimeout(ctx, cacheTimeout)
	defer cancel()
	for _, object := range watched {
		for _, informer := range object.Informers() {
			cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
		}
	}
}

// apply applies all objects of a driver's operator, and creates the initial ClusterCSIDriver, if it is not nil. An
// object that fails does not block the others. The Deployment waits for the others, because its pods need permissions,
// but only until they have failed several times. apply returns the Deployment, or nil if there is none.
func (c *controller) apply(ctx context.Context, o *driverOperator, initial *unstructured.Unstructured, proxy configv1.ProxyStatus, generations *[]operatorv1.GenerationStatus) (*appsv1.Deployment, error) {
	var errs []error
	for _, object := range o.objects {
		if _, err := c.writer.Apply(ctx, object, object.Desired); err != nil {
			errs = append(errs, fmt.Errorf("applying %s %s: %w", object.Desired.GetKind(), object.Desired.GetName(), err))
		}
	}
	if initial != nil {
		if _, err := c.writer.Create(ctx, initial); err != nil {
			errs = append(errs, fmt.Errorf("creating ClusterCSIDriver %s: %w", initial.GetName(), err))
		}
	}
	deployment, err := o.cachedDeployment()
	if err != nil {
		return nil, err
	}
	failed := utilerrors.NewAggregate(errs)
	if failed == nil {
		o.ready.Set()
	} else {
		o.ready.Fail()
	}
	if !o.ready.IsSet() || deployment != nil && deployment.ResourceVersion == o.applied && proxy == o.proxy {
		return deployment, failed
	}
	desired := withProxy(o.desired.deployment, proxy)
	expected := resourcemerge.ExpectedDeploymentGeneration(desired, *generations)
	live, _, err := resourceapply.ApplyDeployment(ctx, c.cluster.kube.AppsV1(), c.process.EventRecorder, desired, expected)
	if err != nil {
		return deployment, errors.Join(failed, fmt.Errorf("applying Deployment %s: %w", desired.Name, err))
	}
	resourcemerge.SetDeploymentGeneration(generations, live)
	o.applied, o.proxy = live.ResourceVersion, proxy
	return live, failed
}

// cachedDeployment returns the Deployment in the cache, nil if there is none.
func (o *driverOperator) cachedDeployment() (*appsv1.Deployment, error) {
	cached := o.deployment.Cached()
	if cached == nil {
		return nil, nil
	}
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(cached.Object, deployment); err != nil {
		return nil, fmt.Errorf("reading the Deployment of the driver's operator: %w", err)
	}
	return deployment, nil
}
