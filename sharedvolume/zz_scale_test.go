package sharedvolume_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster"
)

func TestScale(t *testing.T) {
	w := newWorld(t, cluster.Start(t, cluster.Options{}))
	w.define(definitionFile)
	cfg := w.controllerConfig()
	stop := w.run(cfg)
	w.ready(w.create(w.Namespace(t), "warm"))
	wc, err := client.NewWithWatch(w.Config(), client.Options{Scheme: w.client.Scheme()})
	w.do("client", err)
	for _, n := range []int{300, 1000} {
		ns := w.Namespace(t)
		ctx, cancel := context.WithCancel(context.Background())
		ws, err := wc.Watch(ctx, &corev1.PersistentVolumeClaimList{}, client.InNamespace(ns))
		w.do("watch", err)
		start := time.Now()
		jobs := make(chan int, n)
		for i := range n {
			jobs <- i
		}
		close(jobs)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for i := range jobs {
					sv := newVolume(ns, fmt.Sprintf("sv%d", i))
					if err := w.client.Create(context.Background(), sv); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		created := time.Since(start)
		bound := map[string]bool{}
		for e := range ws.ResultChan() {
			if c, ok := e.Object.(*corev1.PersistentVolumeClaim); ok && c.Status.Phase == corev1.ClaimBound {
				bound[c.Name] = true
			}
			if len(bound) == n {
				break
			}
		}
		all := time.Since(start)
		cancel()
		for i := range n {
			w.ready(newVolume(ns, fmt.Sprintf("sv%d", i)))
		}
		counts := map[string]int{}
		for _, x := range w.Audit(t) {
			if x.User == controllerUser && !x.Received.Before(start) && (x.Namespace == ns || x.Resource == "persistentvolumes") {
				counts[fmt.Sprintf("%s %s/%s %d", x.Verb, x.Resource, x.Subresource, x.Code)]++
			}
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		t.Logf("RESULT %d: created %v, all bound %v, ready %v; %v heap %d MiB", n, created, all, time.Since(start), counts, m.HeapAlloc>>20)
		start = time.Now()
		w.do("ns", w.client.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}))
		for {
			var pvs corev1.PersistentVolumeList
			w.do("list", w.client.List(context.Background(), &pvs))
			if len(pvs.Items) <= 1 {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		counts = map[string]int{}
		for _, x := range w.Audit(t) {
			if x.User == controllerUser && !x.Received.Before(start) {
				counts[fmt.Sprintf("%s %s/%s %d", x.Verb, x.Resource, x.Subresource, x.Code)]++
			}
		}
		t.Logf("RESULT    namespace deleted in %v: %v", time.Since(start), counts)
	}
	stop()
}
