package operator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// TestUninstallWaitsForPodsThatUseVolumes: through a claim, through a generic ephemeral volume, or inline. When the last
// pod is gone, the removal continues by itself, and keeps everything that stands for data.
func TestUninstallWaitsForPodsThatUseVolumes(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.createAPI()
	shared := env.createShare()
	env.installDriver()
	users := []*corev1.Pod{
		env.mountedVolume(),
		env.createUser("inline", env.inlineVolume()),
		env.createUser("ephemeral", env.ephemeralVolume("ephemeral")),
	}
	bystander := env.createUser("bystander", corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		CSI: &corev1.CSIVolumeSource{Driver: "other.csi.example.com"}}})
	blocking := func() float64 {
		number, _ := env.metric("berth_uninstall_blocking_pods", nil)
		return number
	}

	env.deleteCustomResource()
	env.waitForConditions(map[string]operatorv1.ConditionStatus{"Progressing": operatorv1.ConditionTrue, "Available": operatorv1.ConditionTrue})
	env.allowInlineVolumes()
	for i, user := range users {
		got := env.waitForUninstallMessage(fmt.Sprintf("in use by %d pod", len(users)-i))
		assert.EqualValues(t, "VolumesInUse", got.Reason, "the reason")
		for _, left := range users[i:] {
			assert.Containsf(t, got.Message, left.Namespace+"/"+left.Name, "the message does not name pod %s", left.Name)
		}
		assert.NotContains(t, got.Message, bystander.Name, "the message names a pod with the volume of another driver")
		assert.EqualValues(t, len(users)-i, blocking(), "berth_uninstall_blocking_pods")
		if _, missing, err := env.existing(t.Context()); err != nil || len(missing) > 0 {
			t.Errorf("while a volume is in use, these objects were removed: %q (%v)", missing, err)
		}
		require.NoError(t, env.Client().Delete(t.Context(), user))
	}
	env.waitUntilRemoved()
	env.waitForEvent("VolumesInUse", users[0].Name)
	assert.Zero(t, blocking(), "berth_uninstall_blocking_pods in the end")
	checkUnchanged(t, env, shared)
	claims := &corev1.PersistentVolumeClaimList{}
	if err := env.Client().List(t.Context(), claims, client.InNamespace(env.namespace)); err != nil || len(claims.Items) != 1 || claims.Items[0].Status.Phase != corev1.ClaimBound {
		t.Errorf("the claim did not outlive the driver: %v (%v)", claims.Items, err)
	}
}

// TestUninstallCanBeForced: while it waits, with a warning.
func TestUninstallCanBeForced(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.installDriver()
	pod := env.mountedVolume()

	env.deleteCustomResource()
	env.waitForUninstallMessage(pod.Name)
	env.annotate("berth.dev/force-removal", `"true"`)
	env.waitUntilRemoved()
	env.checkOrderOfRemoval()
	env.waitForEvent("RemovalForced", pod.Name)
	list := &corev1.EventList{}
	require.NoError(t, env.Client().List(t.Context(), list, client.InNamespace(env.namespace)))
	for _, event := range list.Items {
		if event.Reason == "RemovalForced" && event.Type != corev1.EventTypeWarning {
			t.Errorf("the event is of type %s, want Warning", event.Type)
		}
	}
}

// TestUninstallWaitsForPodOfAReplacedClaim: a pod has a volume mounted, its claim was deleted, and a new claim of that
// name is not bound to it. A pod that is younger than the new claim does not count.
func TestUninstallWaitsForPodOfAReplacedClaim(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.installDriver()
	pod := env.mountedVolume()
	claim := &corev1.PersistentVolumeClaim{}
	require.NoError(t, env.Client().Get(t.Context(), client.ObjectKey{Namespace: env.namespace, Name: "data"}, claim))
	next := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: "data"}, Spec: *claim.Spec.DeepCopy()}
	next.Spec.VolumeName = "another"
	require.NoError(t, env.Client().Delete(t.Context(), claim))
	if err := env.Client().Patch(t.Context(), claim, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, limit, "the claim to be gone", env.Gone(claim))
	env.create(next)

	env.deleteCustomResource()
	env.waitForUninstallMessage("in use by 1 pod: " + pod.Namespace + "/" + pod.Name)
	cluster.Eventually(t, limit, "the volume to be released for longer than clocks differ", func(context.Context) error {
		if time.Since(next.CreationTimestamp.Time) < 15*time.Second {
			return errors.New("it is not")
		}
		return nil
	})
	env.createUser("younger", corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}})
	require.NoError(t, env.Client().Delete(t.Context(), pod))
	env.waitUntilRemoved()
}

// allowInlineVolumes recreates the CSIDriver to allow inline volumes: the field is immutable.
func (env *testEnv) allowInlineVolumes() {
	env.t.Helper()
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: env.driver.CSIName}}
	require.NoError(env.t, env.Client().Get(env.t.Context(), client.ObjectKeyFromObject(driver), driver))
	require.NoError(env.t, env.Client().Delete(env.t.Context(), driver))
	recreated := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver.Name, Labels: driver.Labels, Annotations: driver.Annotations}, Spec: driver.Spec}
	recreated.Spec.VolumeLifecycleModes = append(recreated.Spec.VolumeLifecycleModes, storagev1.VolumeLifecycleEphemeral)
	env.create(recreated)
}

// inlineVolume returns an inline volume of the driver.
func (env *testEnv) inlineVolume() corev1.Volume {
	return corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: env.driver.CSIName}}}
}

// mountedVolume creates a volume of the driver with a claim, and a running pod that mounts it.
func (env *testEnv) mountedVolume() *corev1.Pod {
	env.t.Helper()
	pod := env.createUser("web", env.claimedVolume(env.namespace, "data"))
	env.waitUntilRunning(pod)
	return pod
}

// claimedVolume creates a volume of the driver with a claim, and returns the pod volume that mounts it.
func (env *testEnv) claimedVolume(name, claim string) corev1.Volume {
	env.t.Helper()
	env.create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: claim},
		Spec:       env.createVolume(name, claim),
	})
	return corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

// waitUntilBound waits until a volume is bound to a claim. No kubelet mounts a volume, or starts a pod that needs it, earlier.
func (env *testEnv) waitUntilBound(claim *corev1.PersistentVolumeClaim) {
	env.t.Helper()
	cluster.Eventually(env.t, limit, "the claim "+claim.Name+" to be bound", func(ctx context.Context) error {
		if err := env.Client().Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", claim.Status.Phase)
		}
		return nil
	})
}

// ephemeralVolume creates a volume of the driver, and returns a generic ephemeral volume of a pod of that name, whose
// claim is bound to it.
func (env *testEnv) ephemeralVolume(pod string) corev1.Volume {
	env.t.Helper()
	spec := env.createVolume(env.namespace+"-"+pod, pod+"-data")
	return corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: spec}}}}
}

// createVolume creates a volume of the driver for one claim, and returns the claim's spec.
func (env *testEnv) createVolume(name, claim string) corev1.PersistentVolumeClaimSpec {
	env.t.Helper()
	return env.createVolumeFor(env.namespace, name, claim)
}

// createVolumeFor creates a volume of the driver for one claim in a namespace, and returns the claim's spec.
func (env *testEnv) createVolumeFor(namespace, name, claim string) corev1.PersistentVolumeClaimSpec {
	env.t.Helper()
	return env.createVolumeOf(env.csiSource(), namespace, name, claim)
}

// csiSource returns the source of a volume of the driver.
func (env *testEnv) csiSource() corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: env.driver.CSIName, VolumeHandle: "fs-0123456789abcdef0"}}
}

// createVolumeOf creates a volume with a source for one claim in a namespace, and returns the claim's spec.
func (env *testEnv) createVolumeOf(source corev1.PersistentVolumeSource, namespace, name, claim string) corev1.PersistentVolumeClaimSpec {
	env.t.Helper()
	empty, size := "", corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeSource: source,
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: claim},
		},
	}
	env.create(volume)
	env.t.Cleanup(func() { env.removeVolume(volume) })
	return corev1.PersistentVolumeClaimSpec{
		StorageClassName: &empty, VolumeName: name, AccessModes: volume.Spec.AccessModes,
		Resources: corev1.VolumeResourceRequirements{Requests: size},
	}
}

// removeVolume deletes a volume, even if its claim is still bound: the operator of the next test must not wait for it.
func (env *testEnv) removeVolume(volume *corev1.PersistentVolume) {
	err := env.Client().Delete(context.Background(), volume, client.Preconditions{UID: &volume.UID})
	if err == nil {
		err = env.removeFinalizers(volume)
	}
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // a test has made another one
		env.t.Error(err)
	}
}

// createUser creates a pod with a volume.
func (env *testEnv) createUser(name string, volume corev1.Volume) *corev1.Pod {
	env.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.com/app:1"}}, Volumes: []corev1.Volume{volume}},
	}
	env.create(pod)
	return pod
}

func (env *testEnv) waitUntilRunning(pod *corev1.Pod) {
	env.t.Helper()
	env.Await(env.t, limit, "pod "+pod.Name+" to run", pod, func() error {
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Status.Conditions)
		}
		return nil
	})
}
