package clustercsidriver

import (
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
)

// TestHandlersEndWithTheCycle: a cycle removes its event handlers from the shared informer, and no others.
func TestHandlersEndWithTheCycle(t *testing.T) {
	source := cachetesting.NewFakeControllerSource()
	shared := cache.NewSharedIndexInformer(source, &operatorv1.ClusterCSIDriver{}, 0, cache.Indexers{})
	go shared.RunWithContext(t.Context())
	cache.WaitForCacheSync(t.Context().Done(), shared.HasSynced)

	events := func(to cache.SharedIndexInformer) <-chan string {
		names := make(chan string, 10)
		if _, err := to.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(object any) { names <- object.(*operatorv1.ClusterCSIDriver).Name },
		}); err != nil {
			t.Fatal(err)
		}
		return names
	}
	want := func(from <-chan string, name string) {
		t.Helper()
		select {
		case got := <-from:
			assert.Equal(t, name, got, "the event's object")
		case <-time.After(time.Minute):
			t.Fatalf("no event about %s", name)
		}
	}
	cycle := &informer{SharedIndexInformer: shared}
	ofProcess, ofCycle := events(shared), events(cycle)
	source.Add(&operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "first"}})
	want(ofProcess, "first")
	want(ofCycle, "first")

	cycle.removeEventHandlers()
	source.Add(&operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "second"}})
	want(ofProcess, "second")
	next := events(&informer{SharedIndexInformer: shared})
	for range 2 { // a new handler receives all objects, in any order
		select {
		case <-next:
		case <-time.After(time.Minute):
			t.Fatal("the next cycle's handler does not receive the objects in the cache")
		}
	}
	if len(ofCycle) > 0 {
		t.Errorf("after its end, the cycle received an event about %s", <-ofCycle)
	}
}
