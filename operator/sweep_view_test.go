package operator_test

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-csi/berth/lab/statediff"
)

// A view is a cache of the objects of one environment: all objects of the kinds that the operator creates, and what
// these lead to. All views share one watch for each kind, because hundreds of runs wait for them.
type view struct {
	env *variantEnv

	mu      sync.Mutex
	live    map[string]*unstructured.Unstructured // by kind, namespace and name, as the original has them
	removed map[string]uint64                     // resource version of an object's removal
	version int                                   // counts changes
}

func newView(env *variantEnv) *view {
	return &view{env: env, live: map[string]*unstructured.Unstructured{}, removed: map[string]uint64{}}
}

// watchEnvs keeps the views of all environments up to date until the test ends.
func watchEnvs(t *testing.T, envs []*variantEnv) {
	t.Helper()
	api := envs[0].Client()
	client, err := dynamic.NewForConfig(envs[0].Config())
	require.NoError(t, err)
	kinds := map[schema.GroupVersionKind]bool{
		operatorv1.GroupVersion.WithKind("ClusterCSIDriver"): true, {Version: "v1", Kind: "Secret"}: true, {Version: "v1", Kind: "Pod"}: true,
		{Version: "v1", Kind: "PersistentVolume"}: true, {Version: "v1", Kind: "PersistentVolumeClaim"}: true,
	}
	for _, object := range envs[0].objects() {
		kinds[object.GetObjectKind().GroupVersionKind()] = true
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	var shown []cache.InformerSynced
	for kind := range kinds {
		mapping, err := api.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		require.NoError(t, err)
		informer := factory.ForResource(mapping.Resource).Informer()
		show := func(object any, removed bool) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			live := object.(*unstructured.Unstructured)
			for _, env := range envs {
				if env.has(live) {
					env.view.show(live, removed)
				}
			}
		}
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { show(object, false) },
			UpdateFunc: func(_, object any) { show(object, false) },
			DeleteFunc: func(object any) { show(object, true) },
		})
		require.NoError(t, err)
		shown = append(shown, registration.HasSynced)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		factory.Shutdown()
	})
	factory.Start(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), shown...)
}

func (v *view) show(live *unstructured.Unstructured, removed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.version++
	key := v.key(live.GetKind(), live.GetNamespace(), live.GetName())
	if removed {
		delete(v.live, key)
		v.removed[key], _ = strconv.ParseUint(live.GetResourceVersion(), 10, 64)
		return
	}
	v.live[key] = live
}

func (v *view) key(kind, namespace, name string) string {
	key := kind + " " + v.env.variant.toOriginal.Replace(name)
	if namespace != "" && namespace != v.env.namespace {
		key += " in " + namespace
	}
	return key
}

// object returns an object of the environment by its key, or nil.
func (v *view) object(key string) *unstructured.Unstructured {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.live[key]
}

// all returns all objects, by their keys.
func (v *view) all() map[string]*unstructured.Unstructured {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.live)
}

// removal returns the resource version of an object's removal, 0 if it was not removed.
func (v *view) removal(key string) uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.removed[key]
}

// changes returns a number that grows with each change.
func (v *view) changes() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.version
}

// state returns all objects but pods, under the names of the original, without what differs between equivalent runs.
func (v *view) state() map[string]any {
	t := v.env.t
	t.Helper()
	state := map[string]any{}
	for key, object := range v.all() {
		if object.GetKind() == "Pod" {
			continue // its name is random
		}
		object = object.DeepCopy()
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", nudgeAnnotation)
		original, err := statediff.Of(object, v.env.variant.toOriginal)
		require.NoError(t, err)
		state[key] = original
	}
	return state
}
