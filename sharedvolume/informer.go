package sharedvolume

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is the number of objects per page of a list. Each may have 1.5 MiB.
const pageSize = 20

// newInformer returns an informer that holds trimmed objects, and only a few untrimmed ones, in memory. Newer API servers stream the
// initial list as watch events, one object at a time; the others get list requests.
func newInformer(source toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(newTrimmedLists(source), example, resync, indexers)
}

// trimmedLists lists objects page by page, and trims the objects of one page before it requests the next.
type trimmedLists struct {
	toolscache.ListerWatcherWithContext
}

func newTrimmedLists(source toolscache.ListerWatcher) trimmedLists {
	return trimmedLists{toolscache.ToListerWatcherWithContext(source)}
}

func (l trimmedLists) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

func (l trimmedLists) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

func (l trimmedLists) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	// With a resource version, the API server may answer from its cache, and then ignores the limit.
	options.ResourceVersion, options.ResourceVersionMatch, options.Limit, options.Continue = "", "", pageSize, ""
	var all []runtime.Object
	for {
		page, err := l.ListerWatcherWithContext.ListWithContext(ctx, options)
		if err != nil {
			return nil, err
		}
		err = meta.EachListItemWithAlloc(page, func(item runtime.Object) error {
			object, ok := item.(client.Object)
			if !ok {
				return fmt.Errorf("the list contains a %T, want an object with metadata", item)
			}
			trim(object)
			all = append(all, object)
			return nil
		})
		if err != nil {
			return nil, err
		}
		list, err := meta.ListAccessor(page)
		if err != nil {
			return nil, err
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return page, meta.SetList(page, all)
		}
	}
}
