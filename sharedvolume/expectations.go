package sharedvolume

import (
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// expectationTimeout is how long a write is expected to appear in a cache. It never appears if the object was deleted before
// the watch saw it.
const expectationTimeout = 5 * time.Second

// expectations hold the writes about each SharedVolume until the caches show them. Caches lag behind by some milliseconds; a
// decision based on a stale cache would repeat the write.
type expectations struct {
	mu     sync.Mutex
	writes map[types.NamespacedName]writes
	// uncertain are the SharedVolumes about which a request failed. The API server may have performed it nevertheless, and
	// the caches may not show that yet.
	uncertain map[types.NamespacedName]bool
}

// writes are the last writes about one SharedVolume, by kind and name of the object.
type writes map[string]write

type write struct {
	object client.Object
	at     time.Time
}

func newExpectations() *expectations {
	return &expectations{writes: map[types.NamespacedName]writes{}, uncertain: map[types.NamespacedName]bool{}}
}

// expect expects the caches to show an object as the API server returned it from a write. A deleted object has a deletion
// timestamp. It trims the object.
func (e *expectations) expect(key types.NamespacedName, object client.Object) {
	trim(object)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writes[key] == nil {
		e.writes[key] = writes{}
	}
	e.writes[key][writeKey(object, object.GetName())] = write{object, time.Now()}
}

// expectRead expects the caches to show objects that were read from the API server.
func (e *expectations) expectRead(key types.NamespacedName, o observed) {
	if o.claim != nil {
		e.expect(key, o.claim)
	}
	for _, volume := range []*corev1.PersistentVolume{o.volume, o.communityVolume} {
		if volume != nil {
			e.expect(key, volume)
		}
	}
}

// pending returns the expected writes about a SharedVolume.
func (e *expectations) pending(key types.NamespacedName) writes {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.writes[key])
}

// replace replaces the expected writes about a SharedVolume and reports whether there are any. No other write can have been
// added since pending, because one worker at a time reconciles a SharedVolume.
func (e *expectations) replace(key types.NamespacedName, left writes) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(left) == 0 {
		delete(e.writes, key)
	} else {
		e.writes[key] = left
	}
	return len(left) > 0
}

// forget drops everything about a SharedVolume.
func (e *expectations) forget(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.writes, key)
	delete(e.uncertain, key)
}

// markUncertain marks a SharedVolume about which a request failed: the next pass reads from the API server.
func (e *expectations) markUncertain(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.uncertain[key] = true
}

// takeUncertain reports whether a SharedVolume is marked as uncertain, and removes the mark.
func (e *expectations) takeUncertain(key types.NamespacedName) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	uncertain := e.uncertain[key]
	delete(e.uncertain, key)
	return uncertain
}

// newest returns the newer of the cached object and its last write, by name. Either may be nil. It drops the write from
// expected if the cache has caught up with it.
func newest[P interface {
	comparable
	client.Object
}](expected writes, name string, cached P) P {
	var none P
	key := writeKey(none, name)
	last, ok := expected[key]
	if !ok {
		return cached
	}
	written := last.object.(P)
	deleted := cached == none && written.GetDeletionTimestamp() != nil
	if deleted || time.Since(last.at) > expectationTimeout || cached != none && caughtUp(cached, written) {
		delete(expected, key)
		return cached
	}
	return written
}

// caughtUp reports whether a cached object is at least as new as a write.
func caughtUp(cached, written client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), written.GetResourceVersion())
	if err != nil {
		return true // They are not comparable, so the cache is all there is.
	}
	// The last version of an object is the one that was deleted, or lost its last finalizer. The object in the cache at
	// that version has no deletion timestamp yet.
	return order > 0 || order == 0 && written.GetDeletionTimestamp() == nil
}

func writeKey(object client.Object, name string) string { return fmt.Sprintf("%T %s", object, name) }
