package objects

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/openshift/library-go/pkg/controller/factory"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxCacheAge is how long the applier relies on the cache alone to find out whether an object is up to date. After that it reads the
// object from the API server, and so finds a change even if the watch missed it, which should never happen.
const maxCacheAge = 10 * time.Minute

// A WatchedObject is an object of the driver with its own informer. It keeps the result of the last apply, so that
// nothing is written while the object is up to date.
type WatchedObject struct {
	// Desired is the object from its asset.
	Desired *unstructured.Unstructured
	// informer is nil where the cluster does not serve the object's kind. Then the object is read whenever its
	// controller syncs.
	informer cache.SharedIndexInformer
	applied  version   // after the last apply
	read     time.Time // when it was last read from the API server
}

// version identifies a desired object and the result of applying it. While the cluster shows the same UID and resource
// version, there is nothing to write.
type version struct {
	desired         [sha256.Size]byte
	uid             string
	resourceVersion string
}

func versionOf(desired [sha256.Size]byte, live *unstructured.Unstructured) version {
	return version{desired: desired, uid: string(live.GetUID()), resourceVersion: live.GetResourceVersion()}
}

// NewWatchedObject returns a desired object with its informer, nil for none.
func NewWatchedObject(desired *unstructured.Unstructured, informer cache.SharedIndexInformer) *WatchedObject {
	return &WatchedObject{Desired: desired, informer: informer}
}

// Informers returns the informer for a controller to be triggered by, if there is one.
func (w *WatchedObject) Informers() []factory.Informer {
	if w.informer == nil {
		return nil
	}
	return []factory.Informer{w.informer}
}

// Cached returns the object in the cache, nil if there is none.
func (w *WatchedObject) Cached() *unstructured.Unstructured {
	if w.informer == nil {
		return nil
	}
	for _, object := range w.informer.GetStore().List() {
		return object.(*unstructured.Unstructured)
	}
	return nil
}

// Expire makes the next Get read the object from the API server.
func (w *WatchedObject) Expire() { w.read = time.Time{} }

// Get returns the live object, read-only; nil if it does not exist. It reads from the API server only if the cache may
// be stale.
func (a *Writer) Get(ctx context.Context, w *WatchedObject) (*unstructured.Unstructured, error) {
	cached := w.Cached()
	switch {
	case w.informer != nil && w.informer.HasSynced() && cached == nil && w.applied == version{}:
		return nil, nil // the cache can lag only behind our own writes, and there were none
	case cached != nil && w.applied == versionOf(w.applied.desired, cached) && a.clock.Since(w.read) < maxCacheAge:
		return cached, nil
	}
	w.read = a.clock.Now()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(w.Desired.GroupVersionKind())
	err := a.client.Get(ctx, client.ObjectKeyFromObject(w.Desired), live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return live, nil
}
