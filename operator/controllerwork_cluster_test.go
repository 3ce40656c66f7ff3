package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestUninstallWaitsForController: no pod uses a volume any more, but the driver's controller still has to detach one, and
// to delete volumes and a snapshot. An administrator who forces the removal does not wait for that.
func TestUninstallWaitsForController(t *testing.T) {
	t.Parallel()
	env := newTestEnvWith(t, ebsDriver(t))
	name := func(what string) string { return env.namespace + "-" + what }
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: env.driver.CSIName, VolumeHandle: "vol-0123456789abcdef0"}}
	inTree := corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-0123456789abcdef1"}}
	others := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "other.csi.example.com", VolumeHandle: "other"}}

	released := env.releasedVolume(csi, name("released"), corev1.PersistentVolumeReclaimDelete)
	terminating := env.deletedVolume(inTree, name("terminating"))
	attachment := env.attachment(env.driver.CSIName, name("attachment"))
	snapshot := env.snapshotContent(env.driver.CSIName, name("snapshot"), true)
	// Not for the driver's controller:
	env.releasedVolume(csi, name("other-retained"), corev1.PersistentVolumeReclaimRetain)
	env.releasedVolume(others, name("other-released"), corev1.PersistentVolumeReclaimDelete)
	env.deletedVolume(others, name("other-terminating"))
	env.attachment("other.csi.example.com", name("other-attachment"))
	env.snapshotContent("other.csi.example.com", name("other-snapshot"), true)
	env.snapshotContent(env.driver.CSIName, name("other-kept"), false)
	env.installDriver()

	env.deleteCustomResource()
	got := env.waitForUninstallMessage("to detach 1 VolumeAttachment: " + attachment.GetName() + " (node worker-0)")
	for _, want := range []string{"delete 2 PersistentVolumes", released.GetName() + " (Released)", terminating.GetName() + " (Terminating)",
		"delete 1 VolumeSnapshotContent: " + snapshot.GetName(), "berth.dev/force-removal=true"} {
		assert.Contains(t, got.Message, want, "the message")
	}
	if got.Reason != "ControllerNeeded" || strings.Contains(got.Message, "other-") {
		t.Errorf("%s: %s; want ControllerNeeded, and only what this driver's controller has to do", got.Reason, got.Message)
	}
	if _, missing, err := env.existing(t.Context()); err != nil || len(missing) > 0 {
		t.Errorf("while the controller has something to do, these objects were removed: %q (%v)", missing, err)
	}
	require.NoError(t, env.Client().Delete(t.Context(), released))
	env.release(terminating)
	env.release(attachment)
	env.waitForUninstallMessage("still has to delete 1 VolumeSnapshotContent: " + snapshot.GetName())
	env.release(snapshot)
	env.waitUntilRemoved()
	env.checkOrderOfRemoval()

	env.create(env.customResource())
	env.waitForConditions(allWell)
	stuck := env.attachment(env.driver.CSIName, name("stuck"))
	env.deleteCustomResource()
	env.waitForUninstallMessage(stuck.GetName())
	env.annotate("berth.dev/force-removal", `"true"`)
	env.waitUntilRemoved()
	env.waitForEvent("RemovalForced", stuck.GetName())
}

// hold is a finalizer of the test.
const hold = "example.com/hold"

// held creates an object that stays until release is called or the test ends, and deletes it.
func (env *testEnv) held(object client.Object) client.Object {
	env.t.Helper()
	object.SetFinalizers([]string{hold})
	env.create(object)
	env.t.Cleanup(func() { env.release(object) })
	require.NoError(env.t, env.Client().Delete(env.t.Context(), object))
	return object
}

// release removes the finalizers of an object, so that it goes if it is deleted.
func (env *testEnv) release(object client.Object) {
	env.t.Helper()
	assert.NoError(env.t, client.IgnoreNotFound(env.removeFinalizers(object)))
}

// attachment creates a VolumeAttachment to worker-0 that is being deleted.
func (env *testEnv) attachment(attacher, name string) client.Object {
	env.t.Helper()
	return env.held(&storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: attacher, NodeName: "worker-0",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
	})
}

// snapshotContent creates a VolumeSnapshotContent, which is then deleted, but stays, or kept.
func (env *testEnv) snapshotContent(driver, name string, deleted bool) client.Object {
	env.t.Helper()
	content := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"driver": driver, "deletionPolicy": "Delete", "source": map[string]any{"snapshotHandle": "snap-0123456789abcdef0"},
		"volumeSnapshotRef": map[string]any{"namespace": env.namespace, "name": name},
	}}}
	content.SetAPIVersion("snapshot.storage.k8s.io/v1")
	content.SetKind("VolumeSnapshotContent")
	content.SetName(name)
	if deleted {
		return env.held(content)
	}
	env.create(content)
	env.t.Cleanup(func() {
		assert.NoError(env.t, env.Client().Delete(context.Background(), content))
	})
	return content
}

// deletedVolume creates a volume that is being deleted.
func (env *testEnv) deletedVolume(source corev1.PersistentVolumeSource, name string) client.Object {
	env.t.Helper()
	env.createVolumeOf(source, env.namespace, name, name)
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	finalizer := client.RawPatch("application/merge-patch+json", []byte(fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, hold)))
	require.NoError(env.t, env.Client().Patch(env.t.Context(), volume, finalizer))
	env.t.Cleanup(func() { env.release(volume) })
	require.NoError(env.t, env.Client().Delete(env.t.Context(), volume))
	return volume
}

// releasedVolume creates a volume that the driver has provisioned for a claim that is gone.
func (env *testEnv) releasedVolume(source corev1.PersistentVolumeSource, name string, policy corev1.PersistentVolumeReclaimPolicy) client.Object {
	env.t.Helper()
	env.createVolumeOf(source, env.namespace, name, name)
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	// Without the annotation, kube-controller-manager would delete the volume itself, and fail.
	gone := fmt.Sprintf(`{"metadata":{"annotations":{"pv.kubernetes.io/provisioned-by":%q}},"spec":{"persistentVolumeReclaimPolicy":%q,"claimRef":{"uid":"4d2f3a0e-8b7c-4c53-9a5e-0b0c6b9f1d11"}}}`,
		source.CSI.Driver, policy)
	require.NoError(env.t, env.Client().Patch(env.t.Context(), volume, client.RawPatch("application/merge-patch+json", []byte(gone))))
	env.Await(env.t, limit, "volume "+name+" to be Released", volume, func() error {
		if volume.Status.Phase != corev1.VolumeReleased {
			return fmt.Errorf("it is %s", volume.Status.Phase)
		}
		return nil
	})
	return volume
}
