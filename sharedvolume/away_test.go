package sharedvolume_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/cluster"
)

// TestControllerAway takes the controller away, as removing the operator does. Volumes stay usable,
// deletions wait, and a controller that comes back finishes all that has begun.
func TestControllerAway(t *testing.T) {
	w := apart(t)
	namespace := w.lasting()
	stop := w.runConfined(namespace)
	stays, broken, deleted := w.create(namespace, "stays"), w.create(namespace, "broken"), w.create(namespace, "deleted")
	torn, held := w.create(namespace, "torn"), w.create(namespace, "held")
	pairs := map[*v1alpha1.SharedVolume]pair{}
	for _, sv := range []*v1alpha1.SharedVolume{stays, broken, deleted, torn, held} {
		pairs[sv] = w.ready(sv)
	}
	stop()

	w.do("delete a claim", w.client.Delete(t.Context(), pairs[broken].claim))
	w.do("delete", w.client.Delete(t.Context(), deleted))
	pod := w.pod(namespace, "web-0", pairs[held].claim.Name)
	// Who cannot wait takes the finalizers off. The claims go then, once no pod uses them.
	for _, sv := range []*v1alpha1.SharedVolume{torn, held} {
		w.do("delete", w.client.Delete(t.Context(), sv))
		w.takeFinalizersOff(sv)
		w.gone(sv)
	}
	w.collected(pairs[torn].claim)
	w.unchanged(pairs[stays], pairs[deleted])

	w.runConfined(namespace)
	w.gone(deleted)
	w.gone(pairs[deleted].claim)
	w.gone(pairs[deleted].volume)
	w.gone(pairs[torn].volume)
	if got, want := w.bound(broken).volume.UID, pairs[broken].volume.UID; got != want {
		t.Errorf("the SharedVolume whose claim was deleted has volume %s now, had %s", got, want)
	}
	w.unchanged(pairs[stays])

	w.get(pairs[held].volume, "", pairs[held].volume.Name)
	if phase := pairs[held].volume.Status.Phase; phase != corev1.VolumeBound {
		t.Errorf("the volume that a pod uses is %s", phase)
	}
	w.do("delete the pod", w.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	w.collected(pairs[held].claim)
	w.gone(pairs[held].volume)
}

// collected waits for Kubernetes' garbage collector, which learns of new kinds of objects every 30
// seconds.
func (w world) collected(object client.Object) {
	w.t.Helper()
	cluster.Eventually(w.t, 2*patience, object.GetName()+" to be collected", w.Gone(object))
}

func TestNamespaceDeletedWhileControllerAway(t *testing.T) {
	w := apart(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.lasting()}}
	stop := w.runConfined(namespace.Name)
	sv := w.create(namespace.Name, "logs")
	p := w.ready(sv)
	stop()
	w.do("delete the namespace", w.client.Delete(t.Context(), namespace))
	w.gone(p.claim)
	w.runConfined(namespace.Name)
	w.gone(p.volume)
	w.gone(namespace)
}

// takeFinalizersOff takes all finalizers off an object.
func (w world) takeFinalizersOff(object client.Object) {
	w.t.Helper()
	w.do("take the finalizers off", w.client.Patch(w.t.Context(), object.DeepCopyObject().(client.Object),
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// unchanged checks that claims and volumes are just as they were.
func (w world) unchanged(pairs ...pair) {
	w.t.Helper()
	for _, before := range pairs {
		after := pair{&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}}
		w.get(after.claim, before.claim.Namespace, before.claim.Name)
		w.get(after.volume, "", before.volume.Name)
		if diff := cmp.Diff(before.claim, after.claim); diff != "" {
			w.t.Errorf("claim %s has changed: %s", before.claim.Name, diff)
		}
		if diff := cmp.Diff(before.volume, after.volume); diff != "" {
			w.t.Errorf("volume %s has changed: %s", before.volume.Name, diff)
		}
	}
}

// TestFinalizerTakenOff: what a SharedVolume leaves behind whose finalizer somebody takes off, while
// there is one of the same name already.
func TestFinalizerTakenOff(t *testing.T) {
	w := served(t)
	sv := w.create(w.Namespace(t), "logs")
	before := w.ready(sv)
	w.pod(sv.Namespace, "web-0", before.claim.Name) // so that the deletion waits
	w.do("delete", w.client.Delete(t.Context(), sv))
	w.until(sv, "ClaimInUse")
	w.takeFinalizersOff(sv)
	w.gone(sv)

	again := w.create(sv.Namespace, "logs")
	w.do("delete the pod", w.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(sv.Namespace), client.GracePeriodSeconds(0)))
	w.gone(before.volume)
	if got, want := w.bound(again).volume.Name, "sharedvolume-"+string(again.UID); got != want {
		t.Errorf("a new SharedVolume of that name has volume %s, want %s", got, want)
	}
}

// TestDeletedAtOnce: the API server may delete a SharedVolume although its finalizer is put on at the
// same moment, and the controller goes on to make a claim and a volume.
func TestDeletedAtOnce(t *testing.T) {
	w := served(t)
	namespace := w.Namespace(t)
	for range 50 {
		sv := w.create(namespace, "logs")
		w.do("delete", w.client.Delete(t.Context(), sv))
		w.gone(sv)
	}
	cluster.Eventually(t, 2*patience, "all to be gone", func(context.Context) error {
		if left := w.shows(namespace); len(left) > 0 {
			return fmt.Errorf("there still is %v", left)
		}
		return nil
	})
}
