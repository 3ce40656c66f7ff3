package sharedvolume_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// TestControllerDowntime stops the controller, as an uninstallation does. Volumes remain usable, deletions wait, and a new
// controller completes them.
func TestControllerDowntime(t *testing.T) {
	env := isolated(t)
	namespace := env.keptNamespace()
	stop := env.runConfined(namespace)
	stays, broken, deleted := env.create(namespace, "stays"), env.create(namespace, "broken"), env.create(namespace, "deleted")
	torn, held := env.create(namespace, "torn"), env.create(namespace, "held")
	pairs := map[*v1alpha1.SharedVolume]pair{}
	for _, sv := range []*v1alpha1.SharedVolume{stays, broken, deleted, torn, held} {
		pairs[sv] = env.ready(sv)
	}
	stop()

	env.do("delete a claim", env.client.Delete(t.Context(), pairs[broken].claim))
	env.do("delete", env.client.Delete(t.Context(), deleted))
	pod := env.pod(namespace, "web-0", pairs[held].claim.Name)
	// Users who cannot wait remove the finalizers. The claims are then deleted, once no pod uses them.
	for _, sv := range []*v1alpha1.SharedVolume{torn, held} {
		env.do("delete", env.client.Delete(t.Context(), sv))
		env.removeFinalizers(sv)
		env.gone(sv)
	}
	env.awaitGarbageCollection(pairs[torn].claim)
	env.unchanged(pairs[stays], pairs[deleted])

	env.runConfined(namespace)
	env.gone(deleted)
	env.gone(pairs[deleted].claim)
	env.gone(pairs[deleted].volume)
	env.gone(pairs[torn].volume)
	assert.Equal(t, pairs[broken].volume.UID, env.bound(broken).volume.UID, "volume of the SharedVolume whose claim was deleted")
	env.unchanged(pairs[stays])

	env.get(pairs[held].volume, "", pairs[held].volume.Name)
	assert.Equal(t, corev1.VolumeBound, pairs[held].volume.Status.Phase, "phase of the volume that a pod uses")
	env.do("delete the pod", env.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	env.awaitGarbageCollection(pairs[held].claim)
	env.gone(pairs[held].volume)
}

// awaitGarbageCollection waits for Kubernetes' garbage collector, which discovers new kinds of objects every 30 seconds.
func (env testEnv) awaitGarbageCollection(object client.Object) {
	env.t.Helper()
	cluster.Eventually(env.t, 2*waitLimit, object.GetName()+" to be collected", env.Gone(object))
}

func TestNamespaceDeletedDuringDowntime(t *testing.T) {
	env := isolated(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.keptNamespace()}}
	stop := env.runConfined(namespace.Name)
	sv := env.create(namespace.Name, "logs")
	p := env.ready(sv)
	stop()
	env.do("delete the namespace", env.client.Delete(t.Context(), namespace))
	env.gone(p.claim)
	env.runConfined(namespace.Name)
	env.gone(p.volume)
	env.gone(namespace)
}

// removeFinalizers removes all finalizers from an object.
func (env testEnv) removeFinalizers(object client.Object) {
	env.t.Helper()
	env.do("take the finalizers off", env.client.Patch(env.t.Context(), object.DeepCopyObject().(client.Object),
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// unchanged checks that claims and volumes have not changed.
func (env testEnv) unchanged(pairs ...pair) {
	env.t.Helper()
	for _, before := range pairs {
		after := pair{&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}}
		env.get(after.claim, before.claim.Namespace, before.claim.Name)
		env.get(after.volume, "", before.volume.Name)
		assert.Emptyf(env.t, cmp.Diff(before.claim, after.claim), "claim %s has changed", before.claim.Name)
		assert.Emptyf(env.t, cmp.Diff(before.volume, after.volume), "volume %s has changed", before.volume.Name)
	}
}

// TestFinalizerRemoved: somebody removes the finalizer of a SharedVolume that is being deleted, and recreates it before its claim
// is gone.
func TestFinalizerRemoved(t *testing.T) {
	env := served(t)
	sv := env.create(env.Namespace(t), "logs")
	before := env.ready(sv)
	env.pod(sv.Namespace, "web-0", before.claim.Name) // so that the deletion waits
	env.do("delete", env.client.Delete(t.Context(), sv))
	env.until(sv, "ClaimInUse")
	env.removeFinalizers(sv)
	env.gone(sv)

	again := env.create(sv.Namespace, "logs")
	env.do("delete the pod", env.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(sv.Namespace), client.GracePeriodSeconds(0)))
	env.gone(before.volume)
	assert.Equal(t, "sharedvolume-"+string(again.UID), env.bound(again).volume.Name, "volume of a new SharedVolume of that name")
}

// TestDeletedBeforeFinalizer: a SharedVolume may be deleted just before its finalizer is added, while the controller creates a
// claim and a volume.
func TestDeletedBeforeFinalizer(t *testing.T) {
	env := served(t)
	namespace := env.Namespace(t)
	for range 50 {
		sv := env.create(namespace, "logs")
		env.do("delete", env.client.Delete(t.Context(), sv))
		env.gone(sv)
	}
	cluster.Eventually(t, 2*waitLimit, "all to be gone", func(context.Context) error {
		if left := env.actual(namespace); len(left) > 0 {
			return fmt.Errorf("%v still exists", left)
		}
		return nil
	})
}
