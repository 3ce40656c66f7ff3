package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A variantWorld is a world with a variant of the driver. Runs take it one after the other.
type variantWorld struct {
	*world
	variant   *variant
	cfg       *rest.Config // the operator's
	view      *view
	formerAPI client.Object // of the community's operator

	bare      map[string]any    // its state without a driver
	installed bool              // the last run has left the driver as an undisturbed operator installs it
	relics    map[string]string // the UIDs of what the last run began with, by key
}

// has tells whether an object belongs to the world.
func (w *variantWorld) has(object metav1.Object) bool {
	return object.GetNamespace() == w.namespace || object.GetName() == w.variant.CSIName || strings.Contains(object.GetName(), w.variant.mark)
}

// customResourceNow returns the ClusterCSIDriver, nil if there is none.
func (w *variantWorld) customResourceNow() *operatorv1.ClusterCSIDriver {
	live := w.view.object("ClusterCSIDriver " + w.variant.originalName)
	if live == nil {
		return nil
	}
	custom := &operatorv1.ClusterCSIDriver{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, custom); err != nil {
		w.t.Fatal(err)
	}
	return custom
}

// renamed returns an object of the original as the variant would have it.
func (w *variantWorld) renamed(object *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		w.t.Fatal(err)
	}
	renamed := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(w.variant.toVariant.Replace(string(text))), &renamed.Object); err != nil {
		w.t.Fatal(err)
	}
	return renamed
}

// clear removes all that the world has besides what it had at its beginning.
func (w *variantWorld) clear() {
	w.t.Helper()
	var removing errgroup.Group
	for key, object := range w.view.all() {
		if w.bare[key] != nil || metav1.GetControllerOf(object) != nil {
			continue // a pod goes with what made it
		}
		removing.Go(func() error {
			if err := w.remove(object.DeepCopy()); err != nil {
				return fmt.Errorf("clearing away %s: %w", key, err)
			}
			return nil
		})
	}
	if err := removing.Wait(); err != nil {
		w.t.Fatal(err)
	}
	w.await("the world to be as at its beginning", func() error {
		var left []string
		for key := range w.view.all() {
			if w.bare[key] == nil {
				left = append(left, key)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("it still has %q", left)
		}
		return nil
	})
}

func (w *variantWorld) remove(object *unstructured.Unstructured) error {
	if object.GetKind() == "ClusterCSIDriver" && len(object.GetFinalizers()) > 0 { // nobody is there to see to them
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := w.Client().Patch(context.Background(), object, patch); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return client.IgnoreNotFound(w.Client().Delete(context.Background(), object, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// pool holds the worlds that no run uses.
type pool struct {
	mu       sync.Mutex
	returned *sync.Cond
	idle     []*variantWorld
}

func newPool(t *testing.T) *pool {
	p := &pool{}
	p.returned = sync.NewCond(&p.mu)
	for number := range variantNames {
		v := newVariant(t, efsDriver(t), number)
		w := &variantWorld{world: newWorldOf(t, v.Driver), variant: v}
		v.placed(w.namespace)
		w.cfg = w.ServiceAccountConfig(t, w.namespace, "operator")
		w.view = newView(w)
		p.idle = append(p.idle, w)
	}
	p.idle[0].setImages()
	watchWorlds(t, slices.Clone(p.idle))
	t.Cleanup(func() { // Other tests use the same drivers.
		for _, w := range p.idle {
			w.clear()
		}
	})
	formerAPI := p.idle[0].createAPI()
	for _, w := range p.idle {
		w.formerAPI = formerAPI
		w.await("what every namespace has", func() error {
			if w.view.object("ConfigMap kube-root-ca.crt") == nil {
				return fmt.Errorf("the certificate of the API server is missing")
			}
			return nil
		})
		w.bare = w.view.state()
	}
	return p
}

// take waits for a world, which the test has until it gives it back. It is one with the driver installed or
// one without if there is a choice.
func (p *pool) take(t *testing.T, installed bool) (w *variantWorld, giveBack func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) == 0 {
		p.returned.Wait()
	}
	i := max(0, slices.IndexFunc(p.idle, func(w *variantWorld) bool { return w.installed == installed }))
	w = p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	outer := w.world
	w.world = outer.in(t)
	return w, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		w.world = outer
		p.idle = append(p.idle, w)
		p.returned.Signal()
	}
}
