package objects

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
)

// A Sighting records whether a class was the default when the watch last showed the class. The class may change and be deleted between
// two syncs, and that change still counts.
type Sighting struct {
	// IsDefault reports whether a class with these annotations is the default.
	IsDefault func(annotations map[string]string) bool

	mu        sync.Mutex
	exists    bool
	isDefault *bool // nil if the watch has not shown the class
}

// see records an event of the watch.
func (s *Sighting) see(exists bool, object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	class, err := meta.Accessor(object)
	if err != nil {
		return // no object
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exists, s.isDefault = exists, new(s.IsDefault(class.GetAnnotations()))
}

// Handler returns the event handler for the informer of the class.
func (s *Sighting) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.see(true, object) },
		UpdateFunc: func(_, object any) { s.see(true, object) },
		DeleteFunc: func(object any) { s.see(false, object) },
	}
}

// Last returns the last sighting as a record, or the ClusterCSIDriver's record if there was none. gone is true unless the watch shows the
// class.
func (s *Sighting) Last(recorded string) (record string, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDefault != nil {
		recorded = strconv.FormatBool(*s.isDefault)
	}
	return recorded, !s.exists
}
