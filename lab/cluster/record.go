package cluster

import (
	"context"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Record watches the objects of a list from now on, and fills the list with the current objects. end returns their
// changes since then. If the API server ends the watch and has forgotten its events, as when an API changes, Record
// lists the objects again: it records missing ones as deleted, and others with the same name and another UID as
// modified.
func (c *Cluster) Record(t testing.TB, list client.ObjectList, options ...client.ListOption) (end func() []watch.Event) {
	t.Helper()
	api, err := client.NewWithWatch(c.Config(), client.Options{Scheme: c.client.Scheme(), Mapper: c.client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.List(t.Context(), list, options...); err != nil {
		t.Fatal(err)
	}
	with := func(raw metav1.ListOptions) (client.ObjectList, []client.ListOption) {
		return list.DeepCopyObject().(client.ObjectList), append(slices.Clone(options), &client.ListOptions{Raw: &raw})
	}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			now, options := with(raw)
			return now, api.List(ctx, now, options...)
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			now, options := with(raw)
			return api.Watch(ctx, now, options...)
		},
	}, nil, 0, nil)
	var mu sync.Mutex
	var all []watch.Event
	record := func(eventType watch.EventType, object any) {
		mu.Lock()
		defer mu.Unlock()
		if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = missed.Obj
		}
		all = append(all, watch.Event{Type: eventType, Object: object.(runtime.Object)})
	}
	recording, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, atFirst bool) {
			if !atFirst {
				record(watch.Added, object)
			}
		},
		UpdateFunc: func(_, object any) { record(watch.Modified, object) },
		DeleteFunc: func(object any) { record(watch.Deleted, object) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	end = sync.OnceValue(func() []watch.Event {
		stop()
		running.Wait()
		mu.Lock()
		defer mu.Unlock()
		return all
	})
	t.Cleanup(func() { end() })
	if !cache.WaitForCacheSync(t.Context().Done(), recording.HasSynced) {
		t.Fatalf("watching %T: the test ended before the watch began", list)
	}
	return end
}
