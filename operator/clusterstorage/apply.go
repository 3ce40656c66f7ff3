package clusterstorage

import (
	"context"
	"errors"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/openshift/library-go/pkg/operator/resource/resourcemerge"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/objects"
)

// A driverOperator is the operator of one driver, with the caches of its objects.
type driverOperator struct {
	desired    operatorObjects
	objects    []*objects.WatchedObject
	deployment *objects.WatchedObject
	applied    string // the resource version of the Deployment that is as desired
}

// newDriverOperator renders a driver's operator, and watches its objects until ctx ends.
func (c *controller) newDriverOperator(ctx context.Context, d drivers.Driver) (*driverOperator, error) {
	desired, err := render(d, c.process.Version, c.process.Getenv)
	if err != nil {
		return nil, err
	}
	o := &driverOperator{desired: desired}
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
	o.deployment, err = c.cluster.watch(ctx, &unstructured.Unstructured{Object: content})
	return o, err
}

// apply applies everything of a driver's operator, and creates the initial ClusterCSIDriver, if it is not nil. What fails does not
// keep the rest from being applied; only the Deployment waits until its permissions are there. It returns the Deployment,
// nil if there is none.
func (c *controller) apply(ctx context.Context, o *driverOperator, initial *unstructured.Unstructured, generations *[]operatorv1.GenerationStatus) (*appsv1.Deployment, error) {
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
	if len(errs) > 0 {
		return deployment, utilerrors.NewAggregate(errs)
	}
	if deployment != nil && deployment.ResourceVersion == o.applied {
		return deployment, nil
	}
	expected := resourcemerge.ExpectedDeploymentGeneration(o.desired.deployment, *generations)
	live, _, err := resourceapply.ApplyDeployment(ctx, c.cluster.kube.AppsV1(), c.process.EventRecorder, o.desired.deployment, expected)
	if err != nil {
		return deployment, fmt.Errorf("applying Deployment %s: %w", o.desired.deployment.Name, err)
	}
	resourcemerge.SetDeploymentGeneration(generations, live)
	o.applied = live.ResourceVersion
	return live, nil
}

// cachedDeployment returns the Deployment in the cache, nil if there is none.
func (o *driverOperator) cachedDeployment() (*appsv1.Deployment, error) {
	cached := o.deployment.Cached()
	if cached == nil {
		return nil, nil
	}
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(cached.Object, deployment); err != nil {
		return nil, errors.Join(errors.New("reading the Deployment of the driver's operator"), err)
	}
	return deployment, nil
}
