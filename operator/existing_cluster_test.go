package operator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// Existing objects with different immutable fields are recreated only if the driver does not work with them.

// TestForeignStorageClassStays: administrators also use the name "efs-sc" for classes of dynamically provisioned volumes.
func TestForeignStorageClassStays(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	class := env.createDynamicClass()
	applied := env.driver.ConditionPrefix + "DriverStorageClassApplied"

	stop := env.startOperator()
	env.create(env.customResource())
	env.waitForReason(applied, "LeftAsItIs")
	custom := env.waitForConditions(allWell)
	if got := condition(custom, applied).Message; !strings.Contains(got, "StorageClass efs-sc") || !strings.Contains(got, "parameters") {
		t.Errorf("condition %s says %q, want the class and the field that differs in it", applied, got)
	}
	env.waitForEvent("StorageClassLeft", "StorageClass efs-sc")
	stop()
	env.startOperator()
	env.waitForRepair()
	checkUnchanged(t, env, []client.Object{class})

	env.deleteCustomResource()
	cluster.Eventually(t, limit, "the ClusterCSIDriver to be gone", env.Gone(env.customResource()))
	checkUnchanged(t, env, []client.Object{class})
	env.waitForEvent("Removed", "StorageClass efs-sc")
	assert.Len(t, env.events("StorageClassLeft"), 1, "events")
}

func (env *testEnv) createDynamicClass() *storagev1.StorageClass {
	env.t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}, Provisioner: env.driver.CSIName,
		Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": "fs-of-somebody", "directoryPerms": "700"}, // the operator asks AWS about real IDs
	}
	env.create(class)
	return class
}

// TestStorageClassState: spec.storageClassState decides whether the operator manages the class.
func TestStorageClassState(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.installDriver()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}}
	require.NoError(t, env.Client().Get(t.Context(), client.ObjectKeyFromObject(class), class))
	set := func(state operatorv1.StorageClassStateName) {
		env.patchCustomResource(fmt.Sprintf(`{"spec":{"storageClassState":%q}}`, state))
		env.waitUntilObserved()
	}
	exists := func(ctx context.Context) error {
		return env.Client().Get(ctx, client.ObjectKeyFromObject(class), class)
	}

	set(operatorv1.RemovedStorageClass)
	cluster.Eventually(t, limit, "the class to be removed", env.Gone(class))
	set(operatorv1.ManagedStorageClass)
	cluster.Eventually(t, limit, "the class to be recreated", exists)
	set(operatorv1.UnmanagedStorageClass)
	require.NoError(t, env.Client().Delete(t.Context(), class))
	env.waitForRepair()
	assert.Error(t, exists(t.Context()), "the class is Unmanaged, but was recreated")

	// A class that another client created is foreign.
	dynamic := env.createDynamicClass()
	set(operatorv1.RemovedStorageClass)
	env.waitForRepair()
	checkUnchanged(t, env, []client.Object{dynamic})
}

// TestImmutableObjectsAreRecreated: the driver does not work with these objects as they are.
func TestImmutableObjectsAreRecreated(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	yes, nobody := true, []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "nobody"}}
	wrongRole := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	wrong := map[string]client.Object{
		"csidrivers": &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: env.driver.CSIName}, Spec: storagev1.CSIDriverSpec{
			AttachRequired: &yes, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}}},
		"clusterrolebindings": &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-node"}, RoleRef: wrongRole, Subjects: nobody},
		"rolebindings": &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: "efs-csi-leader-election"},
			RoleRef: wrongRole, Subjects: nobody},
	}
	for _, object := range wrong {
		env.create(object)
	}
	env.installDriver()
	for resource, old := range wrong {
		var verbs []string
		for _, write := range env.writesTo(resource, old.GetName()) {
			verbs = append(verbs, fmt.Sprint(write.Verb, " ", write.Code))
		}
		assert.Equalf(t, []string{"patch 422", "delete 200", "patch 201"}, verbs, "requests for %s %s", resource, old.GetName())
	}
	for _, what := range []string{"CSIDriver efs.csi.aws.com", "ClusterRoleBinding efs-csi-node", "RoleBinding efs-csi-leader-election"} {
		kind, _, _ := strings.Cut(what, " ")
		env.waitForEvent(kind+"Recreated", what)
	}
	driver := &storagev1.CSIDriver{}
	require.NoError(t, env.Client().Get(t.Context(), client.ObjectKey{Name: env.driver.CSIName}, driver))
	if *driver.Spec.AttachRequired || !slices.Equal(driver.Spec.VolumeLifecycleModes, []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}) {
		t.Errorf("the CSIDriver is still wrong: %+v", driver.Spec)
	}
}

// TestCSIDriverIsUpdatedInPlace: where that is possible.
func TestCSIDriverIsUpdatedInPlace(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	no, yes := false, true
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: env.driver.CSIName}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: &no, PodInfoOnMount: &yes}}
	env.create(driver)
	before := driver.UID
	env.installDriver()
	require.NoError(t, env.Client().Get(t.Context(), client.ObjectKeyFromObject(driver), driver))
	if driver.UID != before || *driver.Spec.PodInfoOnMount {
		t.Errorf("UID %s, was %s; podInfoOnMount is %v, want false", driver.UID, before, *driver.Spec.PodInfoOnMount)
	}
}

// waitUntilObserved waits until the operator has seen the ClusterCSIDriver as it is now.
func (env *testEnv) waitUntilObserved() {
	env.t.Helper()
	custom := env.customResource()
	cluster.Eventually(env.t, limit, "the operator to see the ClusterCSIDriver", func(ctx context.Context) error {
		if err := env.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		if seen := custom.Status.ObservedGeneration; seen != custom.Generation {
			return fmt.Errorf("it has seen generation %d of %d", seen, custom.Generation)
		}
		return nil
	})
}

// events returns the messages of the operator's events with a reason.
func (env *testEnv) events(reason string) []string {
	env.t.Helper()
	list := &corev1.EventList{}
	require.NoError(env.t, env.Client().List(env.t.Context(), list, client.InNamespace(env.namespace)))
	var messages []string
	for _, event := range list.Items {
		if event.Reason == reason {
			messages = append(messages, event.Message)
		}
	}
	return messages
}

// TestClassFollowsTheCluster: a class gets the parameters that the cluster asks for later, keeps what administrators have added
// to it, and is left to them once they have made it again.
func TestClassFollowsTheCluster(t *testing.T) {
	t.Parallel()
	env := newTestEnvWith(t, ebsDriver(t))
	env.installDriver()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gp3-csi"}}
	change(env, class, func(c *storagev1.StorageClass) {
		c.Labels["team"], c.MountOptions = "harbour", []string{"noatime"}
		c.Annotations = map[string]string{defaultClass: "true"}
	})
	ask := func(key string) {
		change(env, env.customResource(), func(c *operatorv1.ClusterCSIDriver) {
			c.Spec.DriverConfig = operatorv1.CSIDriverConfigSpec{DriverType: operatorv1.AWSDriverType, AWS: &operatorv1.AWSCSIDriverConfigSpec{KMSKeyARN: key}}
			if key == "" {
				c.Spec.DriverConfig = operatorv1.CSIDriverConfigSpec{}
			}
		})
	}
	const one, two = "arn:aws:kms:us-east-1:123456789012:key/1", "arn:aws:kms:us-east-1:123456789012:key/2"
	for _, key := range []string{one, two, ""} {
		ask(key)
		cluster.Eventually(t, limit, "the class to have the key "+key, func(ctx context.Context) error {
			class = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gp3-csi"}}
			if err := env.Client().Get(ctx, client.ObjectKeyFromObject(class), class); err != nil {
				return err
			}
			if got := class.Parameters["kmsKeyId"]; got != key || class.Parameters["type"] != "gp3" {
				return fmt.Errorf("its parameters are %v", class.Parameters)
			}
			if class.Labels["team"] != "harbour" || class.Annotations[defaultClass] != "true" || !slices.Equal(class.MountOptions, []string{"noatime"}) {
				return fmt.Errorf("it has the labels %v, annotations %v and mount options %v; want what the administrator had added", class.Labels, class.Annotations, class.MountOptions)
			}
			return nil
		})
	}
	env.waitForEvent("StorageClassRecreated", "StorageClass gp3-csi")
	env.waitForConditions(allWell)

	// An administrator makes the class again, with the operator's label on it.
	mine := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gp3-csi", Labels: class.Labels}, Provisioner: class.Provisioner,
		Parameters: map[string]string{"type": "io2"}, VolumeBindingMode: class.VolumeBindingMode}
	during(env, env.customResource(), func(c *operatorv1.ClusterCSIDriver) { c.Spec.StorageClassState = operatorv1.UnmanagedStorageClass })
	require.NoError(t, env.Client().Delete(t.Context(), class))
	env.create(mine)
	change(env, env.customResource(), func(c *operatorv1.ClusterCSIDriver) { c.Spec.StorageClassState = operatorv1.ManagedStorageClass })
	ask(one)
	env.waitForReason(env.driver.ConditionPrefix+"DriverStorageClassApplied", "Outdated")
	checkUnchanged(t, env, []client.Object{mine})
}
