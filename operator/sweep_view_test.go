package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// A view follows what the cluster has of one world: all objects of the kinds that the operator makes, and
// what these bring about. It asks the API server for nothing but one watch of each kind, for all worlds,
// as hundreds of runs wait for what it shows.
type view struct {
	world *variantWorld

	mu      sync.Mutex
	live    map[string]*unstructured.Unstructured // by kind, namespace and name, as the original has them
	removed map[string]uint64                     // resource version of an object's removal
	version int                                   // counts changes
}

func newView(w *variantWorld) *view {
	return &view{world: w, live: map[string]*unstructured.Unstructured{}, removed: map[string]uint64{}}
}

// watchWorlds keeps the views of all worlds up to date until the test ends.
func watchWorlds(t *testing.T, worlds []*variantWorld) {
	t.Helper()
	api := worlds[0].Client()
	client, err := dynamic.NewForConfig(worlds[0].Config())
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[schema.GroupVersionKind]bool{
		operatorv1.GroupVersion.WithKind("ClusterCSIDriver"): true, {Version: "v1", Kind: "Secret"}: true, {Version: "v1", Kind: "Pod"}: true,
		{Version: "v1", Kind: "PersistentVolume"}: true, {Version: "v1", Kind: "PersistentVolumeClaim"}: true,
	}
	for _, object := range worlds[0].objects() {
		kinds[object.GetObjectKind().GroupVersionKind()] = true
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	var shown []cache.InformerSynced
	for kind := range kinds {
		mapping, err := api.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		informer := factory.ForResource(mapping.Resource).Informer()
		show := func(object any, removed bool) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			live := object.(*unstructured.Unstructured)
			for _, w := range worlds {
				if w.has(live) {
					w.view.show(live, removed)
				}
			}
		}
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { show(object, false) },
			UpdateFunc: func(_, object any) { show(object, false) },
			DeleteFunc: func(object any) { show(object, true) },
		})
		if err != nil {
			t.Fatal(err)
		}
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
	key := kind + " " + v.world.variant.toOriginal.Replace(name)
	if namespace != "" && namespace != v.world.namespace {
		key += " in " + namespace
	}
	return key
}

// object returns one of the world's objects by its key, or nil.
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

// state returns all objects but pods, as the original would have them, without what differs between two
// runs that do the same.
func (v *view) state() map[string]any {
	t := v.world.t
	t.Helper()
	state := map[string]any{}
	for key, object := range v.all() {
		if object.GetKind() == "Pod" {
			continue // its name is random
		}
		text, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		var original map[string]any
		if err := json.Unmarshal([]byte(v.world.variant.toOriginal.Replace(string(text))), &original); err != nil {
			t.Fatal(err)
		}
		mask(object.GetKind(), original)
		state[key] = original
	}
	return state
}

// masked are the fields that differ between two runs that do the same, by kind; "" stands for all kinds.
var masked = map[string][][]string{
	"": {
		{"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "generation"}, {"metadata", "creationTimestamp"}, {"metadata", "managedFields"},
	},
	"ClusterCSIDriver": {{"metadata", "annotations", nudgeAnnotation}, {"status", "generations"}, {"status", "observedGeneration"}},
	// What its controller made of it, in how many steps, and the content of the credentials.
	"Deployment": {{"status"}, {"metadata", "annotations", "deployment.kubernetes.io/revision"}, {"metadata", "annotations", "operator.openshift.io/spec-hash"},
		{"spec", "template", "metadata", "annotations"}},
	"DaemonSet": {{"status"}, {"metadata", "annotations", "deprecated.daemonset.template.generation"}, {"metadata", "annotations", "operator.openshift.io/spec-hash"},
		{"metadata", "annotations", "storage.openshift.io/stable-generation"}, {"spec", "template", "metadata", "annotations"}},
	"PodDisruptionBudget": {{"status"}},
	"Service":             {{"spec", "clusterIP"}, {"spec", "clusterIPs"}},
	"Secret":              {{"data"}},
	"PersistentVolume":    {{"status"}, {"spec", "claimRef", "uid"}, {"spec", "claimRef", "resourceVersion"}},
	"CredentialsRequest":  {{"status", "lastSyncTimestamp"}, {"status", "lastSyncGeneration"}},
}

func mask(kind string, object map[string]any) {
	for _, fields := range [][][]string{masked[""], masked[kind]} {
		for _, path := range fields {
			unstructured.RemoveNestedField(object, path...)
		}
	}
	if annotations, found, _ := unstructured.NestedMap(object, "metadata", "annotations"); found && len(annotations) == 0 {
		unstructured.RemoveNestedField(object, "metadata", "annotations")
	}
	conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	byType := map[string]any{}
	for _, condition := range conditions {
		condition := condition.(map[string]any)
		delete(condition, "lastTransitionTime")
		delete(condition, "lastProbeTime")
		if isWell(condition) {
			delete(condition, "message")
		}
		byType[fmt.Sprint(condition["type"])] = condition
	}
	if len(byType) > 0 {
		object["status"].(map[string]any)["conditions"] = byType // their order is that in which they came
	}
}

// isWell tells whether a condition is a summary that has nothing to complain of: then its message is that of
// whichever condition has changed last.
func isWell(condition map[string]any) bool {
	status, summary := allWell[fmt.Sprint(condition["type"])]
	return summary && condition["status"] == string(status)
}
