package operator

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// trusted is how long a cache is trusted that shows an object as it was applied. Should it have missed a
// change, which it never should, the change is found after this time.
const trusted = 10 * time.Minute

// followed is an object of the driver with an informer of its own, and what is known of it.
type followed struct {
	wanted *unstructured.Unstructured
	// informer is nil where the cluster does not serve the object's kind; then the object is looked at
	// when something else wakes us.
	informer cache.SharedIndexInformer
	// applied is how the object was after it was applied last, and looked when the API server was asked
	// for it last.
	applied revision
	looked  time.Time
}

// revision is what is known of an object after it was applied; while the cluster shows the same,
// there is nothing to write.
type revision struct {
	wanted          [sha256.Size]byte
	uid             string
	resourceVersion string
}

func revisionOf(wanted [sha256.Size]byte, object *unstructured.Unstructured) revision {
	return revision{wanted: wanted, uid: string(object.GetUID()), resourceVersion: object.GetResourceVersion()}
}

func (c *clients) follow(object *unstructured.Unstructured) *followed {
	kind := object.GroupVersionKind()
	mapping, err := c.objects.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return &followed{wanted: object}
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.dynamic, resync, object.GetNamespace(), only(object.GetName()))
	c.add(factory)
	return &followed{wanted: object, informer: factory.ForResource(mapping.Resource).Informer()}
}

// informers returns the informer for a controller to be woken up by, if there is one.
func (f *followed) informers() []factory.Informer {
	if f.informer == nil {
		return nil
	}
	return []factory.Informer{f.informer}
}

// cached returns what the informer has of the object; nil if that is nothing.
func (f *followed) cached() *unstructured.Unstructured {
	if f.informer == nil {
		return nil
	}
	for _, object := range f.informer.GetStore().List() {
		return object.(*unstructured.Unstructured)
	}
	return nil
}

// look returns the object as it is in the cluster, not to be changed; nil if it is not there. The API
// server is asked only if the cache may not have the last word.
func (f *followed) look(ctx context.Context, o *operator, c *clients) (*unstructured.Unstructured, error) {
	cached := f.cached()
	switch {
	case f.informer != nil && f.informer.HasSynced() && cached == nil && f.applied == revision{}:
		return nil, nil // What has just been applied, a cache need not have yet, but all else.
	case cached != nil && f.applied == revisionOf(f.applied.wanted, cached) && o.clock.Since(f.looked) < trusted:
		return cached, nil
	}
	f.looked = o.clock.Now()
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(f.wanted.GroupVersionKind())
	err := c.objects.Get(ctx, client.ObjectKeyFromObject(f.wanted), current)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return current, nil
}
