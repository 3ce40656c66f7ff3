package objects

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// A Sighting holds the class that may be the default as the watch last showed it. A change of the class and its deletion
// may come in one sync, and the change counts all the same.
type Sighting struct {
	// IsDefault reports whether a class with these annotations is the default.
	IsDefault func(annotations map[string]string) bool

	mu        sync.Mutex
	exists    bool
	isDefault *bool // nil if the watch has not shown the class
}

// see stores what the watch shows.
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
	s.exists, s.isDefault = exists, ptr.To(s.IsDefault(class.GetAnnotations()))
}

// Handler is for the informer of the class.
func (s *Sighting) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.see(true, object) },
		UpdateFunc: func(_, object any) { s.see(true, object) },
		DeleteFunc: func(object any) { s.see(false, object) },
	}
}

// Last returns what the last sighting says, as a record; the ClusterCSIDriver's if there was none. It returns false while the
// watch has not shown yet that the class is gone.
func (s *Sighting) Last(recorded string) (record string, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isDefault != nil {
		recorded = strconv.FormatBool(*s.isDefault)
	}
	return recorded, !s.exists
}
