package sharedvolume_test

import (
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
	t.Parallel()
	w := newWorld(t, cluster.Start(t, cluster.Options{}))
	w.define(definitionFile)
	cfg := w.controllerConfig()
	stop := w.run(cfg)
	team := w.Namespace(t)
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "lost-"}}
	w.do("create", w.client.Create(t.Context(), other))
	stays, broken, deleted, torn, held := w.create(team, "stays"), w.create(team, "broken"), w.create(team, "deleted"), w.create(team, "torn"), w.create(team, "held")
	lost := w.create(other.Name, "lost")
	pairs := map[*v1alpha1.SharedVolume]pair{}
	for _, sv := range []*v1alpha1.SharedVolume{stays, broken, deleted, torn, held, lost} {
		pairs[sv] = w.ready(sv)
	}
	stop()

	w.do("delete a claim", w.client.Delete(t.Context(), pairs[broken].claim))
	w.do("delete", w.client.Delete(t.Context(), deleted))
	w.do("delete a namespace", w.client.Delete(t.Context(), other))
	// Who cannot wait takes the finalizers off.
	for _, sv := range []*v1alpha1.SharedVolume{torn, held} {
		w.do("delete", w.client.Delete(t.Context(), sv))
		w.takeFinalizersOff(sv)
		w.gone(sv)
	}
	w.do("delete a claim", w.client.Delete(t.Context(), pairs[torn].claim))
	w.gone(pairs[torn].claim)
	w.gone(pairs[lost].claim)
	w.unchanged(pairs[stays], pairs[deleted], pairs[held])

	w.run(cfg)
	w.gone(deleted)
	w.gone(pairs[deleted].claim)
	w.gone(pairs[deleted].volume)
	w.gone(other)
	w.gone(pairs[lost].volume)
	w.gone(pairs[torn].volume)
	if got, want := w.bound(broken).volume.UID, pairs[broken].volume.UID; got != want {
		t.Errorf("the SharedVolume whose claim was deleted has volume %s now, had %s", got, want)
	}
	w.unchanged(pairs[stays], pairs[held])

	// The claim that stayed goes when its owner wants; its volume then belongs to nobody.
	w.do("delete a claim", w.client.Delete(t.Context(), pairs[held].claim))
	w.gone(pairs[held].volume)

	t.Run("definition deleted", func(t *testing.T) {
		w := w.in(t)
		definition := w.definition()
		w.do("delete the definition", w.client.Delete(t.Context(), definition))
		w.gone(definition)
		for _, sv := range []*v1alpha1.SharedVolume{stays, broken} {
			w.gone(pairs[sv].volume)
		}
		w.noVolumes(team)
	})
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

// TestFinalizerTakenOff: what a SharedVolume leaves behind whose finalizer somebody takes off.
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
