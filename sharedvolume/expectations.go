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

// memoryTime is how long a write is remembered if no cache ever shows it, because the object was
// deleted again before a watch saw it.
const expectationTimeout = 5 * time.Second

// memory holds what was written about each SharedVolume until the caches show it. Caches lag behind
// by some milliseconds; a decision on what they have would make the same write a second time.
type expectations struct {
	mu     sync.Mutex
	writes map[types.NamespacedName]writes
	// doubtful are those about which a request failed. The API server may have done what it asked for,
	// and the caches do not tell yet.
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

// note remembers an object as the API server returned it from a write. One that is being deleted has
// a deletion timestamp. It trims the object.
func (m *expectations) expect(key types.NamespacedName, object client.Object) {
	trim(object)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writes[key] == nil {
		m.writes[key] = writes{}
	}
	m.writes[key][writeKey(object, object.GetName())] = write{object, time.Now()}
}

// of returns the writes about a SharedVolume.
func (m *expectations) pending(key types.NamespacedName) writes {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.writes[key])
}

// keep replaces the writes about a SharedVolume and tells whether there are any. Nobody else may have
// noted any since of: a SharedVolume is worked on by one worker at a time.
func (m *expectations) replace(key types.NamespacedName, left writes) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(left) == 0 {
		delete(m.writes, key)
	} else {
		m.writes[key] = left
	}
	return len(left) > 0
}

// forget drops everything about a SharedVolume.
func (m *expectations) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.writes, key)
	delete(m.uncertain, key)
}

func (m *expectations) markUncertain(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uncertain[key] = true
}

// takeDoubt tells whether there is doubt about a SharedVolume, and ends it.
func (m *expectations) takeUncertain(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	doubtful := m.uncertain[key]
	delete(m.uncertain, key)
	return doubtful
}

// noteRead remembers objects that were read from the API server as if they had just been written.
func (m *expectations) expectRead(key types.NamespacedName, o observed) {
	if o.claim != nil {
		m.expect(key, o.claim)
	}
	for _, volume := range []*corev1.PersistentVolume{o.volume, o.communityVolume} {
		if volume != nil {
			m.expect(key, volume)
		}
	}
}

// recall returns the newer of what a cache has under a name and what was last written there, either
// of which may be nil, and drops the write if the cache has caught up with it.
func newest[P interface {
	comparable
	client.Object
}](recent writes, name string, cached P) P {
	var none P
	key := writeKey(none, name)
	last, ok := recent[key]
	if !ok {
		return cached
	}
	written := last.object.(P)
	gone := cached == none && written.GetDeletionTimestamp() != nil
	if gone || time.Since(last.at) > expectationTimeout || cached != none && caughtUp(cached, written) {
		delete(recent, key)
		return cached
	}
	return written
}

// caughtUp tells whether a cached object is at least as new as a write.
func caughtUp(cached, written client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), written.GetResourceVersion())
	if err != nil {
		return true // Not comparable, so the cache is all there is to go by.
	}
	// The last version of an object is the one that was deleted, or lost its last finalizer: what a
	// cache has of that version does not say so.
	return order > 0 || order == 0 && written.GetDeletionTimestamp() == nil
}

func writeKey(object client.Object, name string) string { return fmt.Sprintf("%T %s", object, name) }
