package operator_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/lab/cluster"
)

// TestRetiredObjects: two versions of a driver have different objects. An update deletes objects that the later version
// has retired, if an operator of the driver created them. A downgrade creates them again, and names the later version's
// objects. So does a removal.
func TestRetiredObjects(t *testing.T) {
	t.Parallel()
	const configMap, role = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: \"${NAMESPACE}\"}\n",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %s}\nrules: []\n"
	first, second := efsDriver(t), efsDriver(t)
	first.Assets = withAssets(t, first.Assets, fmt.Sprintf(configMap, "efs-csi-old"), fmt.Sprintf(role, "efs-csi-old"))
	second.Assets = withAssets(t, second.Assets, fmt.Sprintf(configMap, "efs-csi-new"))
	retire := func(kind schema.GroupVersionKind, namespace, name string) {
		second.Retired = append(second.Retired, drivers.Retired{Kind: kind, Namespace: namespace, Name: name, Since: "1.1.0"})
	}
	configMaps := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	retire(configMaps, drivers.NamespacePlaceholder, "efs-csi-old")
	retire(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), "", "efs-csi-old")
	retire(configMaps, drivers.NamespacePlaceholder, "of-an-administrator")

	env := newTestEnvWith(t, first)
	named := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: name}}
	}
	oldRole := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "efs-csi-old"}}
	t.Cleanup(func() { _ = env.Client().Delete(context.Background(), oldRole) })
	foreign := named("of-an-administrator")
	env.create(foreign)
	exist := func(when string, objects ...client.Object) {
		t.Helper()
		for _, object := range objects {
			cluster.Eventually(t, limit, fmt.Sprintf("%s: %T %s to exist", when, object, object.GetName()), func(ctx context.Context) error {
				return env.Client().Get(ctx, client.ObjectKeyFromObject(object), object)
			})
		}
	}
	run := func(driver drivers.Driver) (stop func()) {
		t.Helper()
		env.driver = driver
		env.permit(permissions.Removable)
		return env.startOperator()
	}
	leftovers := first.ConditionPrefix + "DriverLeftoversRemoved"

	env.create(env.customResource())
	stop := run(first)
	env.waitForConditions(allWell)
	exist("the first version", named("efs-csi-old"), oldRole)
	stop()

	stop = run(second)
	for _, object := range []client.Object{named("efs-csi-old"), oldRole} {
		cluster.Eventually(t, limit, fmt.Sprintf("the update to delete %T %s", object, object.GetName()), env.Gone(object))
	}
	env.waitForConditions(map[string]operatorv1.ConditionStatus{leftovers: operatorv1.ConditionTrue, "Available": operatorv1.ConditionTrue})
	exist("after the update", named("efs-csi-new"), foreign)
	stop()

	stop = run(first)
	custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{leftovers: operatorv1.ConditionFalse})
	if got := condition(custom, leftovers); got.Reason != "ObjectsOfOtherVersion" || !strings.Contains(got.Message, "delete ConfigMap -l") || !strings.Contains(got.Message, "metadata.name=efs-csi-new") {
		t.Errorf("after the downgrade, the condition is %s: %s; want ObjectsOfOtherVersion, and how to delete efs-csi-new", got.Reason, got.Message)
	}
	env.waitForConditions(allWell)
	exist("after the downgrade", named("efs-csi-old"), oldRole, named("efs-csi-new"), foreign)
	stop()

	// The update is repeated, and interrupted by the removal of the driver: that deletes the retired objects, too.
	env.deleteCustomResource()
	run(second)
	env.waitUntilRemoved()
	for _, object := range []client.Object{named("efs-csi-old"), oldRole, named("efs-csi-new")} {
		cluster.Eventually(t, limit, fmt.Sprintf("the removal to delete %T %s", object, object.GetName()), env.Gone(object))
	}
	exist("after the removal", foreign)
}

// withAssets returns assets and more of them.
func withAssets(t *testing.T, assets fs.FS, more ...string) fs.FS {
	t.Helper()
	all := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(assets, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(assets, path)
		all[path] = &fstest.MapFile{Data: content}
		return err
	}))
	for i, content := range more {
		all[fmt.Sprintf("more-%d.yaml", i)] = &fstest.MapFile{Data: []byte(content)}
	}
	return all
}

// TestRetiredKeys: a Secret that volumes refer to has the keys of an earlier operator. While a pod of that operator is
// left, nothing in it changes, because all pods read the same. Then those keys are replaced in one write, and other
// clients' keys stay.
func TestRetiredKeys(t *testing.T) {
	t.Parallel()
	t.Run("F5: the Secret changes when no old pod is left", testRetiredKeys)
}

func testRetiredKeys(t *testing.T) {
	const name, mark, account = "efs-csi-login", "efs.example.com/last-applied", "efs-csi-old-sa"
	driver := efsDriver(t)
	driver.Assets = withAssets(t, driver.Assets, "apiVersion: v1\nkind: Secret\nmetadata: {name: "+name+", namespace: \"${NAMESPACE}\"}\ndata: {new: bmV3}\n")
	driver.History.Keys = []drivers.RetiredKeys{{Secret: name, Mark: mark, Keys: []string{"user", "password", "ca"}, Accounts: []string{account}}}
	env := newTestEnvWith(t, driver)
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: env.home, Name: name} }
	secret := &corev1.Secret{ObjectMeta: in(name), StringData: map[string]string{"user": "admin", "password": "old", "mine": "kept"}}
	secret.Annotations = map[string]string{mark: "{}"}
	pod := &corev1.Pod{ObjectMeta: in("efs-csi-old"), Spec: corev1.PodSpec{ServiceAccountName: account, NodeSelector: map[string]string{"example.com/nowhere": ""},
		Containers: []corev1.Container{{Name: "csi-driver", Image: "registry.example.com/old:1"}}}}
	env.create(&corev1.ServiceAccount{ObjectMeta: in(account)}, secret, pod)
	live := func() *corev1.Secret {
		t.Helper()
		found := &corev1.Secret{}
		require.NoError(t, env.Client().Get(t.Context(), client.ObjectKeyFromObject(secret), found))
		return found
	}
	leftovers := driver.ConditionPrefix + "DriverLeftoversRemoved"

	env.create(env.customResource())
	env.startOperator()
	env.waitForConditions(allWell)
	cluster.Eventually(t, limit, "the condition to name the last pod of the earlier operator", func(ctx context.Context) error {
		custom := env.customResource()
		if err := env.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		if c := condition(custom, leftovers); c.Status != operatorv1.ConditionFalse || !strings.Contains(c.Message, pod.Name) || !strings.Contains(c.Message, name) {
			return fmt.Errorf("it is %s: %s", c.Status, c.Message)
		}
		return nil
	})
	assert.Equal(t, secret.ResourceVersion, live().ResourceVersion, "the Secret changed while a pod is left that needs the old keys")

	require.NoError(t, env.Client().Delete(t.Context(), pod))
	env.waitForConditions(map[string]operatorv1.ConditionStatus{leftovers: operatorv1.ConditionTrue})
	got := live()
	if _, marked := got.Annotations[mark]; marked || got.UID != secret.UID || !slices.Equal(slices.Sorted(maps.Keys(got.Data)), []string{"mine", "new"}) {
		t.Errorf("the Secret has UID %s, the keys %v and the annotations %v; want UID %s, the keys mine and new, and no mark",
			got.UID, slices.Sorted(maps.Keys(got.Data)), got.Annotations, secret.UID)
	}
	cluster.Eventually(t, limit, "the Secret to be managed", func(context.Context) error {
		if labels := live().Labels; labels[drivers.ManagedByLabel] != driver.Operator.Name {
			return fmt.Errorf("its labels are %v", labels)
		}
		return nil
	})
}
