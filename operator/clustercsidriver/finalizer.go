package clustercsidriver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/drivers"
)

// operatorNamespaceAnnotation records the namespace of the operator that added the finalizer. Support tools can rely on
// it (deploy/must-gather/gather does), while any tenant can create a namespace that looks like the operator's.
const operatorNamespaceAnnotation = "berth.dev/operator-namespace"

// A Finalizer adds and removes the operator's finalizer on the ClusterCSIDriver.
type Finalizer struct {
	client            v1helpers.OperatorClient
	resource          dynamic.ResourceInterface
	customResource    string // its name
	finalizer         string
	permanent         bool     // the driver cannot be removed, so there is nothing to wait for
	obsolete          []string // of earlier operators of the driver
	operatorNamespace string
}

// NewFinalizer returns the finalizer of a driver's operator. For a permanent driver, it adds no finalizer and removes
// any that another operator of the driver added.
func NewFinalizer(client *Client, driver drivers.Driver, operatorNamespace string, permanent bool) *Finalizer {
	return &Finalizer{
		client: client, resource: client.Resource(), customResource: client.Name(),
		finalizer: driver.Operator.Name + ".operator.openshift.io/uninstall", permanent: permanent, obsolete: driver.History.Finalizers,
		operatorNamespace: operatorNamespace,
	}
}

// Annotate returns the annotations to write, given the current annotations of the ClusterCSIDriver.
type Annotate func(current map[string]string) map[string]string

// Add prepares the ClusterCSIDriver, in one request, before the operator creates or changes any object of the driver.
// It adds the finalizer, because from then on there is something to uninstall; the annotations that record where and
// what the driver is; and the operator's namespace. It removes the finalizers of earlier operators, because nobody else
// would.
//
// The annotations outlive the operator. With them an operator that is reinstalled in another namespace, or that was
// interrupted while it removed the driver, finds all of the driver's objects.
func (f *Finalizer) Add(ctx context.Context, annotate Annotate) error {
	custom, err := f.client.GetObjectMeta()
	if err != nil {
		return err
	}
	finalizers := custom.Finalizers
	switch {
	case f.permanent:
		finalizers = f.foreign(finalizers)
	case custom.DeletionTimestamp == nil:
		finalizers = append(f.foreign(finalizers), f.finalizer)
	} // otherwise the API server accepts no new finalizer, and an existing one keeps the object until the driver is gone
	annotations := annotate(custom.Annotations)
	annotations[operatorNamespaceAnnotation] = f.operatorNamespace
	if containsAll(custom.Annotations, annotations) && sets.New(custom.Finalizers...).Equal(sets.New(finalizers...)) {
		klog.V(4).InfoS("The finalizer is up to date", "clusterCSIDriver", f.customResource)
		return nil
	}
	if err := f.patch(ctx, custom, map[string]any{"annotations": annotations, "finalizers": finalizers}); err != nil {
		return fmt.Errorf("writing the finalizers and annotations of ClusterCSIDriver %s: %w", f.customResource, err)
	}
	klog.V(2).InfoS("Wrote the finalizers and annotations", "clusterCSIDriver", f.customResource, "finalizers", finalizers)
	return f.waitForCache(ctx, custom.ResourceVersion)
}

// waitForCache waits until the cache shows a write that was based on a resource version: library-go's controllers write
// the whole object from the cache, and a stale cache would revert the write. It fails if that takes too long, and the
// caller's retry then decides from the cache.
func (f *Finalizer) waitForCache(ctx context.Context, before string) error {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, cacheTimeout, true, func(context.Context) (bool, error) {
		now, err := f.client.GetObjectMeta()
		return err == nil && now.ResourceVersion != before, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("wrote ClusterCSIDriver %s, but %s later the watch still shows the version before, %s, as when etcd was restored to it: trying again",
			f.customResource, cacheTimeout, before)
	}
	return err
}

// NewController returns the controller that repeats Add when somebody has removed the finalizer, as kubectl replace
// does with a manifest without finalizers. placement holds the annotations that record where the driver is. If the
// ClusterCSIDriver has other values, the controller writes nothing, because the cycle is about to end.
func (f *Finalizer) NewController(name string, placement map[string]string, annotate Annotate, recorder events.Recorder) factory.Controller {
	return factory.New().
		WithInformers(f.client.Informer()).
		WithSync(func(ctx context.Context, _ factory.SyncContext) error {
			custom, err := f.client.GetObjectMeta()
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
			if custom.DeletionTimestamp != nil || !containsAll(custom.Annotations, placement) {
				return nil
			}
			return f.Add(ctx, annotate)
		}).
		ToController(name, recorder)
}

// Remove removes the finalizers of this operator and of earlier ones.
func (f *Finalizer) Remove(ctx context.Context) error {
	custom, err := f.client.GetObjectMeta()
	if err != nil {
		return err
	}
	finalizers := f.foreign(custom.Finalizers)
	if len(finalizers) == len(custom.Finalizers) {
		return nil
	}
	if err := f.patch(ctx, custom, map[string]any{"finalizers": finalizers}); err != nil {
		return fmt.Errorf("removing the finalizer from ClusterCSIDriver %s: %w", f.customResource, err)
	}
	klog.V(2).InfoS("Removed the finalizer", "clusterCSIDriver", f.customResource, "finalizer", f.finalizer)
	return nil
}

// foreign returns the finalizers that belong neither to this operator nor to an earlier one.
func (f *Finalizer) foreign(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(finalizer string) bool {
		return finalizer == f.finalizer || slices.Contains(f.obsolete, finalizer)
	})
}

// patch changes metadata, unless the object has changed since it was observed.
func (f *Finalizer) patch(ctx context.Context, observed *metav1.ObjectMeta, metadata map[string]any) error {
	metadata["resourceVersion"] = observed.ResourceVersion
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = f.resource.Patch(ctx, f.customResource, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func containsAll(annotations, want map[string]string) bool {
	for key, value := range want {
		if annotations[key] != value {
			return false
		}
	}
	return true
}
