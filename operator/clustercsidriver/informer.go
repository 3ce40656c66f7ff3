package clustercsidriver

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// An informer is a view of a shared informer that can remove all event handlers that were added through it.
// library-go's controllers never remove theirs, and each cycle starts new controllers.
type informer struct {
	cache.SharedIndexInformer

	mu            sync.Mutex
	registrations []cache.ResourceEventHandlerRegistration
}

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.registered(i.SharedIndexInformer.AddEventHandler(handler))
}

func (i *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.registered(i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, period))
}

func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.registered(i.SharedIndexInformer.AddEventHandlerWithOptions(handler, options))
}

func (i *informer) registered(registration cache.ResourceEventHandlerRegistration, err error) (cache.ResourceEventHandlerRegistration, error) {
	if err == nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.registrations = append(i.registrations, registration)
	}
	return registration, err
}

func (i *informer) removeEventHandlers() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, registration := range i.registrations {
		if err := i.RemoveEventHandler(registration); err != nil {
			klog.ErrorS(err, "Failed to remove an event handler for the ClusterCSIDriver")
		}
	}
	i.registrations = nil
}
