package operator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster"
)

// Of objects that exist and differ in what cannot be changed, those go that the driver cannot work with,
// and no others.

// TestAnAdministratorsStorageClassStays: "efs-sc" is also what people call a class for volumes that are
// provisioned dynamically.
func TestAnAdministratorsStorageClassStays(t *testing.T) {
	w := newWorld(t)
	class := w.createDynamicClass()
	applied := w.driver.ConditionPrefix + "DriverStorageClassApplied"

	stop := w.startOperator()
	w.create(w.customResource())
	w.waitForReason(applied, "LeftAsItIs")
	custom := w.waitForConditions(allWell)
	if got := condition(custom, applied).Message; !strings.Contains(got, "StorageClass efs-sc") || !strings.Contains(got, "parameters") {
		t.Errorf("condition %s says %q, want the class and the field that differs in it", applied, got)
	}
	w.waitForEvent("StorageClassLeft", "StorageClass efs-sc")
	stop()
	w.startOperator()
	w.waitForRepair()
	checkUnchanged(t, w, []client.Object{class})

	w.deleteCustomResource()
	cluster.Eventually(t, limit, "the ClusterCSIDriver to be gone", w.Gone(w.customResource()))
	checkUnchanged(t, w, []client.Object{class})
	w.waitForEvent("Removed", "StorageClass efs-sc")
	if told := w.events("StorageClassLeft"); len(told) != 1 {
		t.Errorf("events: %q, want just one", told)
	}
}

func (w *world) createDynamicClass() *storagev1.StorageClass {
	w.t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}, Provisioner: w.driver.CSIName,
		Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": "fs-0123456789abcdef0", "directoryPerms": "700"},
	}
	w.create(class)
	return class
}

// TestStorageClassState: the administrator says what becomes of the driver's class.
func TestStorageClassState(t *testing.T) {
	w := newWorld(t)
	w.installDriver()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}}
	if err := w.Client().Get(t.Context(), client.ObjectKeyFromObject(class), class); err != nil {
		t.Fatal(err)
	}
	set := func(state operatorv1.StorageClassStateName) {
		w.patchCustomResource(fmt.Sprintf(`{"spec":{"storageClassState":%q}}`, state))
		w.waitUntilObserved()
	}
	exists := func(ctx context.Context) error { return w.Client().Get(ctx, client.ObjectKeyFromObject(class), class) }

	set(operatorv1.RemovedStorageClass)
	cluster.Eventually(t, limit, "the class to be removed", w.Gone(class))
	set(operatorv1.ManagedStorageClass)
	cluster.Eventually(t, limit, "the class to be made anew", exists)
	set(operatorv1.UnmanagedStorageClass)
	if err := w.Client().Delete(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	w.waitForRepair()
	if err := exists(t.Context()); err == nil {
		t.Error("the class is Unmanaged, but was made anew")
	}

	// What was made in the driver's place is somebody else's.
	dynamic := w.createDynamicClass()
	set(operatorv1.RemovedStorageClass)
	w.waitForRepair()
	checkUnchanged(t, w, []client.Object{dynamic})
}

// TestObjectsThatCannotBeChangedAreRemade: the driver does not work with these as they are.
func TestObjectsThatCannotBeChangedAreRemade(t *testing.T) {
	w := newWorld(t)
	yes, nobody := true, []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "nobody"}}
	wrongRole := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	wrong := map[string]client.Object{
		"csidrivers": &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName}, Spec: storagev1.CSIDriverSpec{
			AttachRequired: &yes, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}}},
		"clusterrolebindings": &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-node"}, RoleRef: wrongRole, Subjects: nobody},
		"rolebindings": &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.home, Name: "efs-csi-leader-election"},
			RoleRef: wrongRole, Subjects: nobody},
	}
	for _, object := range wrong {
		w.create(object)
	}
	w.installDriver()
	for resource, old := range wrong {
		var verbs []string
		for _, write := range w.writesTo(resource, old.GetName()) {
			verbs = append(verbs, fmt.Sprint(write.Verb, " ", write.Code))
		}
		if want := []string{"patch 422", "delete 200", "patch 201"}; !slices.Equal(verbs, want) {
			t.Errorf("to %s %s the operator did %q, want %q", resource, old.GetName(), verbs, want)
		}
	}
	for _, what := range []string{"CSIDriver efs.csi.aws.com", "ClusterRoleBinding efs-csi-node", "RoleBinding efs-csi-leader-election"} {
		kind, _, _ := strings.Cut(what, " ")
		w.waitForEvent(kind+"Remade", what)
	}
	driver := &storagev1.CSIDriver{}
	if err := w.Client().Get(t.Context(), client.ObjectKey{Name: w.driver.CSIName}, driver); err != nil {
		t.Fatal(err)
	}
	if *driver.Spec.AttachRequired || !slices.Equal(driver.Spec.VolumeLifecycleModes, []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}) {
		t.Errorf("the CSIDriver is still wrong: %+v", driver.Spec)
	}
}

// TestACSIDriverIsChangedInPlace where that is possible.
func TestACSIDriverIsChangedInPlace(t *testing.T) {
	w := newWorld(t)
	no, yes := false, true
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: &no, PodInfoOnMount: &yes}}
	w.create(driver)
	before := driver.UID
	w.installDriver()
	if err := w.Client().Get(t.Context(), client.ObjectKeyFromObject(driver), driver); err != nil {
		t.Fatal(err)
	}
	if driver.UID != before || *driver.Spec.PodInfoOnMount {
		t.Errorf("UID %s, was %s; podInfoOnMount is %v, want false", driver.UID, before, *driver.Spec.PodInfoOnMount)
	}
}

// waitUntilObserved waits until the operator has seen the ClusterCSIDriver as it is now.
func (w *world) waitUntilObserved() {
	w.t.Helper()
	custom := w.customResource()
	cluster.Eventually(w.t, limit, "the operator to see the ClusterCSIDriver", func(ctx context.Context) error {
		if err := w.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		if seen := custom.Status.ObservedGeneration; seen != custom.Generation {
			return fmt.Errorf("it has seen generation %d of %d", seen, custom.Generation)
		}
		return nil
	})
}

// events returns the messages of the operator's events with a reason.
func (w *world) events(reason string) []string {
	w.t.Helper()
	list := &corev1.EventList{}
	if err := w.Client().List(w.t.Context(), list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	var messages []string
	for _, event := range list.Items {
		if event.Reason == reason {
			messages = append(messages, event.Message)
		}
	}
	return messages
}
