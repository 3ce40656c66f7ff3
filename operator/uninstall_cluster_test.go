package operator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster"
)

// removed waits until the ClusterCSIDriver and all of the driver's objects are gone.
func (w *world) waitUntilRemoved() {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "the ClusterCSIDriver to be gone", w.Gone(w.customResource()))
	if present, _, err := w.existing(w.t.Context()); err != nil || len(present) > 0 {
		w.t.Errorf("the ClusterCSIDriver is gone, but these objects are left: %q (%v)", present, err)
	}
}

func (w *world) deleteCustomResource() {
	w.t.Helper()
	if err := w.Client().Delete(w.t.Context(), w.customResource()); err != nil {
		w.t.Fatal(err)
	}
}

func TestUninstallGoesInOrder(t *testing.T) {
	w := newWorld(t)
	w.installDriver()
	w.deleteCustomResource()
	w.waitUntilRemoved()

	var order []string
	for _, write := range w.writes() {
		if write.Verb == "delete" {
			order = append(order, write.Resource)
		}
	}
	position := func(resource string) int { return slices.Index(order, resource) }
	for _, pair := range [][2]string{
		{"deployments", "daemonsets"}, {"daemonsets", "serviceaccounts"}, {"daemonsets", "csidrivers"},
		{"serviceaccounts", "credentialsrequests"}, {"securitycontextconstraints", "credentialsrequests"},
	} {
		if first, second := position(pair[0]), position(pair[1]); first < 0 || second < 0 || first > second {
			t.Errorf("want %s deleted before %s, got the order %v", pair[0], pair[1], order)
		}
	}
	if last := order[len(order)-1]; last != "credentialsrequests" {
		t.Errorf("the last object deleted is one of %s, want credentialsrequests", last)
	}
}

func TestUninstallWaitsForPodsThatUseVolumes(t *testing.T) {
	w := newWorld(t)
	w.installDriver()
	pod := w.mountedVolume()

	w.deleteCustomResource()
	custom := w.waitForConditions(map[string]operatorv1.ConditionStatus{"Progressing": operatorv1.ConditionTrue, "Available": operatorv1.ConditionTrue})
	got := condition(custom, w.driver.ConditionPrefix+"UninstallProgressing")
	if got.Reason != "VolumesInUse" || !strings.Contains(got.Message, pod.Namespace+"/"+pod.Name) {
		t.Errorf("condition = %s: %s; want VolumesInUse, and the pod named", got.Reason, got.Message)
	}
	if _, missing, err := w.existing(t.Context()); err != nil || len(missing) > 0 {
		t.Errorf("while a volume is in use, these objects were removed: %q (%v)", missing, err)
	}
	w.waitForEvent("VolumesInUse", pod.Name)

	if err := w.Client().Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.waitUntilRemoved()
	claims := &corev1.PersistentVolumeClaimList{}
	if err := w.Client().List(t.Context(), claims, client.InNamespace(w.namespace)); err != nil || len(claims.Items) != 1 || claims.Items[0].Status.Phase != corev1.ClaimBound {
		t.Errorf("the claim did not outlive the driver: %v (%v)", claims.Items, err)
	}
}

func TestUninstallCanBeForced(t *testing.T) {
	w := newWorld(t)
	w.installDriver()
	pod := w.mountedVolume()

	w.annotate("berth.dev/force-removal", `"true"`)
	w.deleteCustomResource()
	w.waitUntilRemoved()
	w.waitForEvent("RemovalForced", pod.Name)
}

func TestRemovedAndManagedAgain(t *testing.T) {
	w := newWorld(t)
	w.installDriver()

	w.setManagementState(operatorv1.Removed)
	w.waitForConditions(map[string]operatorv1.ConditionStatus{
		"Available": operatorv1.ConditionFalse, "Progressing": operatorv1.ConditionFalse, "Degraded": operatorv1.ConditionFalse})
	if present, _, err := w.existing(t.Context()); err != nil || len(present) > 0 {
		t.Errorf("Removed, but these objects are left: %q (%v)", present, err)
	}
	w.setManagementState(operatorv1.Managed)
	w.waitForConditions(allWell)
}

func TestUnmanagedIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.installDriver()
	w.setManagementState(operatorv1.Unmanaged)
	w.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionUnknown})

	csiDriver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName}}
	if err := w.Client().Delete(t.Context(), csiDriver); err != nil {
		t.Fatal(err)
	}
	w.deleteCustomResource()
	cluster.Eventually(t, limit, "the ClusterCSIDriver to be gone", w.Gone(w.customResource()))
	_, missing, err := w.existing(t.Context())
	if err != nil || !slices.Equal(missing, []string{"CSIDriver " + w.driver.CSIName}) {
		t.Errorf("missing objects = %q (%v); want just the CSIDriver that was deleted by hand", missing, err)
	}
}

func TestForeignObjectsStay(t *testing.T) {
	w := newWorld(t)
	w.installDriver()
	w.setManagementState(operatorv1.Unmanaged)
	w.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionUnknown})

	foreign := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-sa", Namespace: w.namespace}}
	if err := w.Client().Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	w.create(foreign)
	w.setManagementState(operatorv1.Removed)
	custom := w.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionFalse, "Progressing": operatorv1.ConditionFalse})
	if got := condition(custom, w.driver.ConditionPrefix+"UninstallProgressing"); !strings.Contains(got.Message, "ServiceAccount efs-csi-sa") {
		t.Errorf("message = %q, want it to name the foreign object", got.Message)
	}
	if present, _, err := w.existing(t.Context()); err != nil || !slices.Equal(present, []string{"ServiceAccount efs-csi-sa"}) {
		t.Errorf("objects left = %q (%v), want just the foreign one", present, err)
	}
}

func (w *world) setManagementState(state operatorv1.ManagementState) {
	w.t.Helper()
	w.patchCustomResource(fmt.Sprintf(`{"spec":{"managementState":%q}}`, state))
}

func (w *world) patchCustomResource(patch string) {
	w.t.Helper()
	if err := w.Client().Patch(w.t.Context(), w.customResource(), client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
}

// mountedVolume makes a volume of the driver with a claim, and a running pod that mounts it.
func (w *world) mountedVolume() *corev1.Pod {
	w.t.Helper()
	empty, size := "", corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: w.driver.CSIName, VolumeHandle: "fs-0123456789abcdef0"}},
			ClaimRef: &corev1.ObjectReference{Namespace: w.namespace, Name: "data"},
		},
	}
	w.t.Cleanup(func() { w.Client().Delete(context.Background(), volume) })
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &empty, VolumeName: volume.Name, AccessModes: volume.Spec.AccessModes,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "web"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
		},
	}
	w.create(volume, claim, pod)
	w.waitUntilRunning(pod)
	return pod
}

func (w *world) waitUntilRunning(pod *corev1.Pod) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "pod "+pod.Name+" to run", func(ctx context.Context) error {
		if err := w.Client().Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Status.Conditions)
		}
		return nil
	})
}

func (w *world) waitForEvent(reason, text string) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "an event "+reason, func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := w.Client().List(ctx, events, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Reason == reason && strings.Contains(event.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("none of %d events is one", len(events.Items))
	})
}
