package operator_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/openstack"
	"github.com/berth-csi/berth/operator"
	"github.com/berth-csi/berth/test/community"
	"github.com/berth-csi/berth/test/tenant"
)

// Attacks by a tenant who wants the driver's permissions and credentials, or to keep the driver from others. Each of these
// was successful once.

const (
	namespaceAnnotation    = "berth.dev/driver-namespace"
	namespaceUIDAnnotation = "berth.dev/driver-namespace-uid"
)

// ownLabels are the labels by which the operator recognizes its own and earlier operators' objects.
func (env *testEnv) ownLabels() map[string]string {
	labels := map[string]string{"app.kubernetes.io/managed-by": env.driver.Operator.Name}
	for key, value := range env.driver.History.Labels {
		labels[key] = value
	}
	return labels
}

// forge creates, as a tenant, DaemonSets and service accounts in a namespace that look like the driver's.
func (env *testEnv) forge(tn *tenant.Tenant, namespace string) []client.Object {
	env.t.Helper()
	manifests, err := env.driver.Operand(drivers.Values{Namespace: namespace, Image: func(env string) string { return env }})
	require.NoError(env.t, err)
	var forged []client.Object
	for _, m := range manifests {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: m.Object.GetName(), Labels: env.ownLabels()}
		switch m.Object.GetKind() {
		case "ServiceAccount":
			forged = append(forged, &corev1.ServiceAccount{ObjectMeta: meta})
		case "DaemonSet":
			labels := selectorOf(m.Object)
			forged = append(forged, &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "attack", Image: "registry.example/attack:1"}}}},
			}})
		}
	}
	for _, object := range forged {
		require.NoError(env.t, tn.Client.Create(env.t.Context(), object))
	}
	return forged
}

// checkNothingFor checks that the operator has written nothing to a namespace, and that no object outside of it gives it
// permissions or credentials.
func (env *testEnv) checkNothingFor(namespace string) {
	env.t.Helper()
	for _, write := range env.writes() {
		if write.Namespace == namespace || write.Resource == "namespaces" && write.Name == namespace {
			env.t.Errorf("in a tenant's namespace the operator requested: %s %s %s (%d)", write.Verb, write.Resource, write.Name, write.Code)
		}
	}
	assert.Empty(env.t, env.permissionsOf(env.t.Context(), namespace), "what gives permissions or credentials to a tenant's namespace")
}

// permissionsOf returns the driver's objects outside of a namespace that mention the namespace.
func (env *testEnv) permissionsOf(ctx context.Context, namespace string) []string {
	env.t.Helper()
	var found []string
	for _, object := range env.objects() {
		live := object.(*unstructured.Unstructured)
		if live.GetKind() == "Namespace" || env.Client().Get(ctx, client.ObjectKeyFromObject(live), live) != nil || live.GetNamespace() == namespace {
			continue
		}
		live.SetManagedFields(nil)
		text, err := live.MarshalJSON()
		require.NoError(env.t, err)
		if strings.Contains(string(text), `"`+namespace+`"`) || strings.Contains(string(text), ":"+namespace+":") {
			found = append(found, nameOf(live))
		}
	}
	return found
}

// checkForged checks that a tenant's objects are unchanged.
func (env *testEnv) checkForged(forged []client.Object) {
	env.t.Helper()
	for _, object := range forged {
		now := object.DeepCopyObject().(client.Object)
		if err := env.Client().Get(env.t.Context(), client.ObjectKeyFromObject(object), now); err != nil {
			env.t.Error(err)
		} else if now.GetUID() != object.GetUID() || now.GetGeneration() > max(1, object.GetGeneration()) || len(now.GetLabels()) != len(object.GetLabels()) {
			env.t.Errorf("%T %s of a tenant was changed", object, object.GetName())
		}
	}
}

// TestAttackForgedDriver: a tenant's DaemonSet with the driver's name and labels was there before the driver.
func TestAttackForgedDriver(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, env *testEnv) {
		tn := tenant.New(t, env.Cluster)
		project := tn.Project(t, "")
		forged := env.forge(tn, project)
		env.create(env.customResource())
		env.startOperator()
		custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionTrue, "Progressing": operatorv1.ConditionFalse})
		if got := condition(custom, "Degraded"); got.Status != operatorv1.ConditionFalse {
			t.Errorf("a tenant degrades the driver: %s: %s", got.Reason, got.Message)
		}
		assert.EqualValues(t, env.home, custom.Annotations[namespaceAnnotation], "the driver is in namespace")
		env.checkNothingFor(project)
		env.checkForged(forged)
	})
}

// TestAttackForgedLock: a tenant's pod holds a lock of the right name, beside a forged driver.
func TestAttackForgedLock(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	tn := tenant.New(t, env.Cluster)
	project := tn.Project(t, "")
	env.forge(tn, project)
	env.createLockedOperatorAs(tn.Client, project)
	env.create(env.customResource())
	served := make(chan struct{})
	env.startOperator(operator.APIController{Run: func(ctx context.Context, _ *rest.Config) error {
		close(served)
		<-ctx.Done()
		return nil
	}})
	env.waitForConditions(allWell)
	<-served
	env.checkNothingFor(project)
}

// TestAttackForgedDriverBesideOurs: a tenant's DaemonSet degraded a driver that is installed.
func TestAttackForgedDriverBesideOurs(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.installDriver()
	tn := tenant.New(t, env.Cluster)
	project := tn.Project(t, "")
	env.forge(tn, project)
	env.annotate("example.com/look", `"again"`)
	env.waitForRepair()
	custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{"Available": operatorv1.ConditionTrue})
	for _, c := range custom.Status.Conditions {
		if strings.HasSuffix(c.Type, "Degraded") && c.Status == operatorv1.ConditionTrue {
			t.Errorf("a tenant degrades the driver: %s: %s: %s", c.Type, c.Reason, c.Message)
		}
	}
	for _, event := range env.requests() {
		if event.Resource == "daemonsets" && event.Namespace == "" {
			t.Errorf("the operator reads DaemonSets of all namespaces: %s", event.URI)
		}
	}
	env.checkNothingFor(project)
}

// withFixedNamespace returns Manila in a fixed namespace with a name that tenants can take.
func withFixedNamespace(t *testing.T, name string) drivers.Driver {
	t.Helper()
	driver, err := registry.Get("manila")
	require.NoError(t, err)
	before, assets := driver.Namespace, fstest.MapFS{}
	require.NoError(t, fs.WalkDir(driver.Assets, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(driver.Assets, path)
		assets[path] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(string(text), before, name))}
		return err
	}))
	driver.Assets, driver.Namespace = assets, name
	return driver
}

// TestAttackFixedNamespace: a tenant has created the namespace that the driver's definition names.
func TestAttackFixedNamespace(t *testing.T) {
	t.Parallel()
	const fixed = "manila-csi-driver-of-tests"
	env := newTestEnvWith(t, withFixedNamespace(t, fixed))
	env.enterCloud(openstack.Start(t, "default"))
	tn := tenant.New(t, env.Cluster)
	tn.Project(t, fixed)
	forged := env.forge(tn, fixed)
	env.create(env.customResource())
	env.startOperator()
	degraded := env.driver.ConditionPrefix + "DriverNamespaceDegraded"
	env.waitForReason(degraded, "NamespaceUnproven")
	custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{"Degraded": operatorv1.ConditionTrue})
	namespace := &corev1.Namespace{}
	require.NoError(t, env.Client().Get(t.Context(), client.ObjectKey{Name: fixed}, namespace))
	for _, want := range []string{namespaceAnnotation + "=" + fixed, namespaceUIDAnnotation + "=" + string(namespace.UID)} {
		assert.Containsf(t, condition(custom, degraded).Message, want, "condition %s says", degraded)
	}
	env.checkNothingFor(fixed)
	env.checkForged(forged)
	if len(custom.Finalizers) > 0 || custom.Annotations[namespaceAnnotation] != "" {
		t.Errorf("the finalizer was added: finalizers %q, annotations %v", custom.Finalizers, custom.Annotations)
	}

	// Once the tenant's namespace is gone, the operator creates its own.
	env.deleteNamespace(fixed)
	custom = env.waitForConditions(allWell)
	require.NoError(t, env.Client().Get(t.Context(), client.ObjectKey{Name: fixed}, namespace))
	assert.EqualValues(t, string(namespace.UID), custom.Annotations[namespaceUIDAnnotation], "the recorded UID")

	// The namespace outlives the driver, and is recognized again.
	env.deleteCustomResource()
	env.waitUntilRemoved()
	env.create(env.customResource())
	env.waitForConditions(allWell)
	t.Cleanup(func() { _ = env.Client().Delete(context.Background(), namespace) })
}

// TestAttackRecreatedNamespaceOfATrace: the namespace of an earlier driver was deleted, which leaves its
// SecurityContextConstraints, and a tenant has taken its name.
func TestAttackRecreatedNamespaceOfATrace(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	old := env.freeName("old")
	require.NoError(t, env.EnsureNamespace(t.Context(), old))
	unadopted, err := community.Driver(old, nil)
	require.NoError(t, err)
	for _, object := range unadopted {
		if object.GetKind() == "SecurityContextConstraints" {
			env.create(object)
		}
	}
	env.deleteNamespace(old)
	env.tick()
	tn := tenant.New(t, env.Cluster)
	tn.Project(t, old)
	forged := env.forge(tn, old)
	env.create(env.customResource())
	env.startOperator()
	env.waitForConditions(allWell)
	env.checkNothingFor(old)
	env.checkForged(forged)
}

// TestAttackNamespaceThatAnAdministratorNamed: an administrator names a namespace that does not exist yet, and a tenant
// creates it first.
func TestAttackNamespaceThatAnAdministratorNamed(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	chosen := env.freeName("chosen")
	custom := env.customResource()
	custom.Annotations = map[string]string{namespaceAnnotation: chosen}
	env.create(custom)
	env.tick()
	tn := tenant.New(t, env.Cluster)
	tn.Project(t, chosen)
	forged := env.forge(tn, chosen)
	stop := env.startOperator()
	env.waitForReason(env.driver.ConditionPrefix+"DriverNamespaceDegraded", "NamespaceUnproven")
	env.checkNothingFor(chosen)

	// Later, an administrator changes something else, and the operator restarts.
	stop()
	env.tick()
	live := env.customResource()
	require.NoError(t, env.Client().Get(t.Context(), client.ObjectKeyFromObject(live), live))
	live.Spec.LogLevel = operatorv1.Debug
	require.NoError(t, env.Client().Update(t.Context(), live))
	generation := live.Generation
	env.startOperator()
	env.Await(t, limit, "the change to be seen", live, func() error {
		if seen := live.Status.ObservedGeneration; seen < generation {
			return fmt.Errorf("the operator has seen generation %d, want %d", seen, generation)
		}
		return nil
	})
	env.waitForReason(env.driver.ConditionPrefix+"DriverNamespaceDegraded", "NamespaceUnproven")
	env.checkNothingFor(chosen)
	env.checkForged(forged)

	// An administrator who trusts the namespace adds its UID.
	namespace := &corev1.Namespace{}
	require.NoError(t, env.Client().Get(t.Context(), client.ObjectKey{Name: chosen}, namespace))
	env.home = chosen
	env.annotate(namespaceUIDAnnotation, fmt.Sprintf("%q", namespace.UID))
	env.waitForConditions(allWell)
}

// TestAttackRecreatedNamespace: the driver's namespace is deleted, and a tenant takes its name. The driver comes back in
// the operator's namespace, and the tenant's gets nothing.
func TestAttackRecreatedNamespace(t *testing.T) {
	t.Parallel()
	t.Run("while the operator runs", func(t *testing.T) { testAttackRecreatedNamespace(t, true) })
	t.Run("while the operator is away", func(t *testing.T) { testAttackRecreatedNamespace(t, false) })
}

func testAttackRecreatedNamespace(t *testing.T, running bool) {
	env := newTestEnv(t)
	tenants := env.freeName("home")
	stop := env.installIn(tenants)
	if !running {
		stop()
	}
	env.deleteNamespace(tenants)
	began := len(env.writes())
	tn := tenant.New(t, env.Cluster)
	tn.Project(t, tenants)
	forged := env.forge(tn, tenants)
	env.home = env.namespace
	if !running {
		env.startOperator()
	}
	env.waitUntilInstalled()
	for _, write := range env.writes()[began:] {
		if write.Namespace == tenants && write.Code < 300 {
			t.Errorf("in a tenant's namespace the operator requested: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	assert.Empty(t, env.permissionsOf(t.Context(), tenants), "what gives permissions or credentials to a tenant's namespace")
	env.checkForged(forged)
	env.deleteCustomResource()
	env.waitUntilRemoved()
	env.checkForged(forged)
}

// TestAttackRecreatedNamespaceOfARemoval: the driver's namespace is deleted while its operator is away, a tenant takes its
// name, and then the driver is removed.
func TestAttackRecreatedNamespaceOfARemoval(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	tenants := env.freeName("home")
	stop := env.installIn(tenants)
	stop()
	env.deleteNamespace(tenants)
	tn := tenant.New(t, env.Cluster)
	tn.Project(t, tenants)
	forged := env.forge(tn, tenants)
	env.deleteCustomResource()
	env.startOperator()
	// Objects outside of the namespace can be removed, and objects in it stay.
	cluster.Eventually(t, limit, "the ClusterCSIDriver to be gone", env.Gone(env.customResource()))
	env.checkForged(forged)
	for _, object := range env.objects() {
		if object.GetNamespace() == env.home {
			continue
		}
		err := env.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object)
		assert.Errorf(t, err, "%s is still there", nameOf(object))
	}
}

// installIn installs the driver in a new namespace, which an administrator has named, and returns when nothing can be
// created any more in the second in which the driver's objects were.
func (env *testEnv) installIn(namespace string) (stop func()) {
	env.t.Helper()
	env.home = namespace
	require.NoError(env.t, env.EnsureNamespace(env.t.Context(), namespace))
	custom := env.customResource()
	custom.Annotations = map[string]string{namespaceAnnotation: namespace}
	env.create(custom)
	stop = env.startOperator()
	custom = env.waitForConditions(allWell)
	assert.EqualValues(env.t, env.namespaceUID(namespace), custom.Annotations[namespaceUIDAnnotation], "the recorded UID")
	env.tick()
	return stop
}

// freeName returns the name of a namespace that does not exist.
func (env *testEnv) freeName(prefix string) string { return prefix + "-" + env.namespace }

func (env *testEnv) namespaceUID(name string) types.UID {
	env.t.Helper()
	namespace := &corev1.Namespace{}
	require.NoError(env.t, env.Client().Get(env.t.Context(), client.ObjectKey{Name: name}, namespace))
	return namespace.UID
}

// deleteNamespace deletes a namespace and waits until it is gone.
func (env *testEnv) deleteNamespace(name string) {
	env.t.Helper()
	namespace := &corev1.Namespace{}
	env.ended = name
	key, uid := client.ObjectKey{Name: name}, env.namespaceUID(name)
	require.NoError(env.t, env.Client().Delete(env.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	cluster.Eventually(env.t, limit, "namespace "+name+" to be gone", func(ctx context.Context) error {
		err := env.Client().Get(ctx, key, namespace)
		if err == nil && namespace.UID == uid {
			return fmt.Errorf("it is %s", namespace.Status.Phase)
		}
		return client.IgnoreNotFound(err)
	})
}

// tick waits until new objects get a later creation time: the API server's times are in seconds.
func (env *testEnv) tick() {
	env.t.Helper()
	var first metav1.Time
	cluster.Eventually(env.t, limit, "the API server's clock to advance", func(ctx context.Context) error {
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, GenerateName: "tick-"}}
		if err := env.Client().Create(ctx, made, client.DryRunAll); err != nil {
			return err
		}
		if first.IsZero() {
			first = made.CreationTimestamp
		}
		if !made.CreationTimestamp.After(first.Time) {
			return fmt.Errorf("it is still %s", first)
		}
		return nil
	})
}
