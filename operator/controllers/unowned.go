package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
)

// Unowned are the objects of the operator's bundle that OLM v0 leaves without an owner. Own ties them to the
// bundle's ClusterServiceVersion, so that they are removed with the operator.
//
// OLM v0 sets an owner on most objects of a bundle. But it creates separate Roles and RoleBindings without an owner, and never deletes
// them. A bundle cannot name the owner itself, because only OLM v0 would fill in the owner's UID: under OLM v1, the API server would
// refuse the bundle. OLM v1 needs no owner, because it deletes what it has installed.
type Unowned struct {
	cfg       *rest.Config
	condition client.ObjectKey // OLM's OperatorCondition for the operator; without a name where OLM v0 does not run it
	objects   []drivers.Manifest
}

// NewUnowned returns the unowned objects of a driver's operator in a namespace. condition names OLM v0's
// OperatorCondition for the operator; it is "" where OLM v0 does not run the operator. NewUnowned fails if the driver's
// objects cannot be rendered.
func NewUnowned(cfg *rest.Config, driver drivers.Driver, namespace, condition string) (*Unowned, error) {
	objects, err := driver.UnownedInBundle()
	return &Unowned{cfg: cfg, condition: client.ObjectKey{Namespace: namespace, Name: condition}, objects: objects}, err
}

// Own gives the objects their owner, and keeps doing so until ctx ends.
func (u *Unowned) Own(ctx context.Context) error {
	if u.condition.Name == "" {
		return nil
	}
	scheme := runtime.NewScheme()
	if err := operatorsv2.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.New(u.cfg, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	changed, err := u.watch(ctx)
	if err != nil {
		return err
	}
	// OLM creates these objects, and gives the operator permission to read its OperatorCondition, while the operator
	// starts. Later, it may apply the bundle again from its cache, which removes the owner.
	initial := wait.Backoff{Duration: time.Second, Factor: 2, Steps: math.MaxInt32, Cap: time.Minute}
	backoff := initial
	for ctx.Err() == nil {
		var retry <-chan time.Time
		if err := u.ownAll(ctx, c); err == nil {
			backoff = initial
		} else {
			after := backoff.Step()
			retry = time.After(after)
			klog.V(2).InfoS("Failed to tie an object of the bundle to the ClusterServiceVersion", "err", err, "retryIn", after)
		}
		select {
		case <-changed:
		case <-retry:
		case <-ctx.Done():
		}
	}
	return nil
}

// watch returns a channel that receives a value when one of the objects has changed, until ctx ends.
func (u *Unowned) watch(ctx context.Context) (<-chan struct{}, error) {
	c, err := metadata.NewForConfig(u.cfg)
	if err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	note := func() {
		select {
		case changed <- struct{}{}:
		default: // a notification is pending
		}
	}
	for _, m := range u.objects {
		resource, err := drivers.ResourceOf(m.Object.GroupVersionKind().GroupKind())
		if err != nil {
			return nil, err
		}
		informer := metadatainformer.NewFilteredMetadataInformer(c, m.Object.GroupVersionKind().GroupVersion().WithResource(resource), u.condition.Namespace, 0, nil,
			func(o *metav1.ListOptions) {
				o.FieldSelector = fields.OneTermEqualSelector("metadata.name", m.Object.GetName()).String()
			}).Informer()
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { note() }, UpdateFunc: func(any, any) { note() },
		}); err != nil {
			return nil, err
		}
		go informer.RunWithContext(ctx)
	}
	return changed, nil
}

func (u *Unowned) ownAll(ctx context.Context, c client.Client) error {
	owner, err := u.owner(ctx, c)
	if owner == nil || err != nil {
		return err
	}
	// Owners are merged by UID, so this changes nothing if the owner is already set.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{*owner}}})
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range u.objects {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(m.Object.GroupVersionKind())
		object.SetNamespace(u.condition.Namespace)
		object.SetName(m.Object.GetName())
		if err := c.Patch(ctx, object, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", m.Object.GetKind(), client.ObjectKeyFromObject(object), err))
		}
	}
	return errors.Join(errs...)
}

// owner returns the ClusterServiceVersion that owns the OperatorCondition, or nil while berth move deletes this ClusterServiceVersion
// without deleting its objects. The operator may read only the OperatorCondition. Whoever can write it may also delete the objects in the
// operator's namespace, so a wrong owner gives nobody more permissions.
func (u *Unowned) owner(ctx context.Context, c client.Client) (*metav1.OwnerReference, error) {
	condition := &operatorsv2.OperatorCondition{}
	if err := c.Get(ctx, u.condition, condition); err != nil {
		return nil, fmt.Errorf("read OperatorCondition %s: %w", u.condition, err)
	}
	for _, owner := range condition.OwnerReferences {
		switch {
		case owner.Kind != v1alpha1.ClusterServiceVersionKind || owner.APIVersion != v1alpha1.ClusterServiceVersionAPIVersion:
		case condition.Annotations[predecessor.EndingAnnotation] == string(owner.UID):
			return nil, nil
		default:
			return &metav1.OwnerReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID}, nil
		}
	}
	return nil, fmt.Errorf("no ClusterServiceVersion owns OperatorCondition %s, as OLM makes it: its owners are %v", u.condition, condition.OwnerReferences)
}
