package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/cloudcredential"
	"github.com/berth-csi/berth/lab/openstack"
)

// newBackendTestEnv returns an environment on a cloud, for a driver that is installed only if the cloud offers something.
// Its operator asks often.
func newBackendTestEnv(t *testing.T, cloud *openstack.Cloud) *testEnv {
	driver, err := registry.Get("manila")
	require.NoError(t, err)
	backend := *driver.Backend
	backend.Interval = 200 * time.Millisecond
	driver.Backend = &backend
	env := newTestEnvWith(t, driver)
	env.enterCloud(cloud)
	return env
}

// enterCloud creates the credentials of a cloud that the installer creates.
func (env *testEnv) enterCloud(cloud *openstack.Cloud) {
	root := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cloudcredential.RootNamespace, Name: cloudcredential.RootOpenStack},
		Data:       map[string][]byte{"clouds.yaml": cloud.CloudsYAML()},
	}
	env.create(root)
	env.t.Cleanup(func() {
		assert.NoError(env.t, env.Client().Delete(context.Background(), root))
	})
}

// classes returns the names of the driver's StorageClasses.
func (env *testEnv) classes() []string {
	env.t.Helper()
	list := &storagev1.StorageClassList{}
	require.NoError(env.t, env.Client().List(env.t.Context(), list))
	var names []string
	for _, class := range list.Items {
		if class.Provisioner == env.driver.CSIName {
			names = append(names, class.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (env *testEnv) waitForClasses(want ...string) {
	env.t.Helper()
	cluster.Eventually(env.t, limit, fmt.Sprintf("the StorageClasses %q", want), func(context.Context) error {
		if diff := cmp.Diff(want, env.classes()); diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return nil
	})
}

// waitUntilAsked waits until the operator has asked the cloud again, and reported the answer.
func (env *testEnv) waitUntilAsked(cloud *openstack.Cloud) {
	env.t.Helper()
	before := cloud.Asked()
	cluster.Eventually(env.t, limit, "the operator to ask the cloud", func(context.Context) error {
		if asked := cloud.Asked(); asked < before+2 { // the first request may have been in flight before
			return fmt.Errorf("asked %d times, was %d", asked, before)
		}
		return nil
	})
}

// waitForBackend waits until the driver is healthy, whatever is reported about its backend.
func (env *testEnv) waitForBackend(answers, disabled operatorv1.ConditionStatus) *operatorv1.ClusterCSIDriver {
	env.t.Helper()
	return env.waitForConditions(map[string]operatorv1.ConditionStatus{
		"Available": operatorv1.ConditionTrue, "Progressing": operatorv1.ConditionFalse, "Degraded": operatorv1.ConditionFalse,
		env.driver.ConditionPrefix + "BackendAnswers":     answers,
		env.driver.ConditionPrefix + "ControllerDisabled": disabled,
	})
}

// TestDriverIsInstalledForBackendOffers: the driver is installed when the backend offers something, with a StorageClass
// for each offer, and stays whatever the backend offers later.
func TestDriverIsInstalledForBackendOffers(t *testing.T) {
	t.Parallel()
	cloud := openstack.Start(t)
	env := newBackendTestEnv(t, cloud)
	env.create(env.customResource())
	stop := env.startOperator()

	custom := env.waitForBackend(operatorv1.ConditionTrue, operatorv1.ConditionTrue)
	if got := condition(custom, "ManilaControllerDisabled"); got.Reason != "NothingOffered" || !strings.Contains(got.Message, "OpenStack Manila has no share type") {
		t.Errorf("condition = %s: %s; want NothingOffered, and what is missing", got.Reason, got.Message)
	}
	env.checkOnlyWhatItTakesToAsk()

	cloud.SetShareTypes("Gold")
	cluster.Eventually(t, limit, "the driver to be installed", func(ctx context.Context) error {
		if _, missing, err := env.existing(ctx); err != nil || len(missing) > 0 {
			return fmt.Errorf("these objects are missing: %q (%v)", missing, err)
		}
		return nil
	})
	env.waitForBackend(operatorv1.ConditionTrue, operatorv1.ConditionFalse)
	env.waitForClasses("csi-manila-gold")
	installed := env.uids()

	cloud.SetShareTypes("Gold", "tin_can")
	env.waitForClasses("csi-manila-gold", "csi-manila-tin-can")
	env.waitForConditions(allWell)

	for name, trouble := range map[string]func(){
		"no share types":      func() { cloud.SetShareTypes() },
		"no Manila":           func() { cloud.SetManila(openstack.Absent) },
		"Manila is forbidden": func() { cloud.SetManila(openstack.Forbidden) },
		"Manila is down":      func() { cloud.SetManila(openstack.Down) },
	} {
		cloud.SetManila(openstack.Up)
		env.waitForBackend(operatorv1.ConditionTrue, operatorv1.ConditionFalse)
		trouble()
		if name == "no share types" {
			env.waitUntilAsked(cloud)
		} else {
			env.waitForBackend(operatorv1.ConditionFalse, operatorv1.ConditionFalse)
		}
		env.waitForConditions(allWell)
		assert.Emptyf(t, cmp.Diff(installed, env.uids()), "%s: UIDs of the driver's objects (-before +after)", name)
		env.waitForClasses("csi-manila-gold", "csi-manila-tin-can")
	}

	// A restarted operator that cannot ask continues all the same.
	stop()
	cloud.SetManila(openstack.Down)
	lost := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: "manila-csi-driver-node-sa"}}
	require.NoError(t, env.Client().Delete(t.Context(), lost))
	env.startOperator()
	cluster.Eventually(t, limit, "the lost object to be recreated", func(ctx context.Context) error {
		return env.Client().Get(ctx, client.ObjectKeyFromObject(lost), lost)
	})
	env.waitForBackend(operatorv1.ConditionFalse, operatorv1.ConditionFalse)

	env.deleteCustomResource()
	env.waitUntilRemoved()
	env.waitForClasses()
	env.waitForEvent("Removed", "kept, because volumes may refer to them: Namespace openshift-manila-csi-driver, Secret csi-manila-secrets")
	for name, uid := range env.uids() {
		if uid != installed[name] || !env.kept()[name] {
			t.Errorf("%s has UID %s, was %s; kept are only %v", name, uid, installed[name], env.kept())
		}
	}
	for _, write := range env.writes() {
		if write.Verb == "delete" && (write.Resource == "namespaces" || write.Resource == "secrets") {
			t.Errorf("the operator requested: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
}

// checkOnlyWhatItTakesToAsk checks that the cluster has none of the driver's objects but its namespace and its credentials.
func (env *testEnv) checkOnlyWhatItTakesToAsk() {
	env.t.Helper()
	present, _, err := env.existing(env.t.Context())
	require.NoError(env.t, err)
	present = slices.DeleteFunc(present, func(name string) bool { return name == "Secret csi-manila-secrets" }) // an earlier test's
	want := []string{"Namespace openshift-manila-csi-driver", "CredentialsRequest manila-csi-drivers", "ConfigMap manila-csi-driver-trusted-ca-bundle"}
	assert.Equal(env.t, want, present, "objects of the driver without any offer")
}

// TestUnreachableBackendIsNotDegraded: without the driver there is nothing to degrade. Once the backend can be asked,
// the driver is installed. The operator trusts the same certificate authorities as the driver's pods will.
func TestUnreachableBackendIsNotDegraded(t *testing.T) {
	t.Parallel()
	t.Run("F15: Manila cannot be reached", testUnreachableBackend)
}

func testUnreachableBackend(t *testing.T) {
	cloud := openstack.StartWith(t, openstack.Options{TLS: true, ShareTypes: []string{"gold"}})
	cloud.SetManila(openstack.Forbidden)
	env := newBackendTestEnv(t, cloud)
	env.create(env.customResource())
	env.startOperator()
	trusted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.driver.Namespace, Name: env.driver.TrustedCABundle}}
	for _, step := range []struct{ says, authorities string }{
		{"certificate signed by unknown authority", ""},
		{"Policy doesn't allow", string(cloud.CA())}, // that the cluster network operator injects
	} {
		cluster.Eventually(t, limit, "the operator to trust what its driver will trust", func(ctx context.Context) error {
			if err := env.Client().Get(ctx, client.ObjectKeyFromObject(trusted), trusted); err != nil {
				return err
			}
			trusted.Data = map[string]string{drivers.TrustedCAKey: step.authorities}
			return env.Client().Update(ctx, trusted)
		})
		cluster.Eventually(t, limit, "the reason why Manila cannot be asked", func(context.Context) error {
			custom := env.waitForBackend(operatorv1.ConditionFalse, operatorv1.ConditionTrue)
			if got := condition(custom, "ManilaControllerDisabled"); got.Reason != "BackendUnknown" || !strings.Contains(got.Message, step.says) {
				return fmt.Errorf("condition = %s: %s; want BackendUnknown, and %q", got.Reason, got.Message, step.says)
			}
			return nil
		})
	}
	env.checkOnlyWhatItTakesToAsk()
	cloud.SetManila(openstack.Up)
	env.waitForClasses("csi-manila-gold")
	env.waitForBackend(operatorv1.ConditionTrue, operatorv1.ConditionFalse)

	// A class that an administrator recreated stays as it is.
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "csi-manila-tin"}, Provisioner: env.driver.CSIName}
	env.create(class)
	t.Cleanup(func() { _ = env.Client().Delete(context.Background(), class) })
	cloud.SetShareTypes("gold", "tin")
	env.waitForReason("ManilaDriverStorageClassApplied", "LeftAsItIs")
	checkUnchanged(t, env, []client.Object{class})
	env.waitForEvent("StorageClassLeft", `with the parameters type: "tin"`)
	env.waitForConditions(allWell)
}

// TestDriverIsUnavailableUntilBackendHasAnswered: a driver does not become available before it is known whether it will be
// installed, so that it need not become unavailable for that. A restarted operator asks again, and the driver stays available.
func TestDriverIsUnavailableUntilBackendHasAnswered(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		offers   []string
		disabled operatorv1.ConditionStatus
	}{
		"it offers something": {[]string{"gold"}, operatorv1.ConditionFalse},
		"it offers nothing":   {nil, operatorv1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := openstack.Start(t, test.offers...)
			env := newBackendTestEnv(t, cloud)
			endFirst := env.recordAvailability()
			answer := env.holdAnswer(cloud)
			env.create(env.customResource())
			stop := env.startOperator()
			env.waitForConditions(map[string]operatorv1.ConditionStatus{"ManilaControllerCredentialsRequestControllerAvailable": operatorv1.ConditionTrue})
			answer()
			env.waitForBackend(operatorv1.ConditionTrue, test.disabled)
			env.waitForConditions(map[string]operatorv1.ConditionStatus{operatorv1.OperatorStatusTypeAvailable: operatorv1.ConditionTrue})
			assert.Empty(t, cmp.Diff("False True", endFirst()), "the course of Available at first (-want +got)")

			stop()
			endSecond := env.recordAvailability()
			answer = env.holdAnswer(cloud)
			env.startOperator()
			answer()
			env.waitUntilAsked(cloud)
			env.waitForBackend(operatorv1.ConditionTrue, test.disabled)
			assert.Empty(t, cmp.Diff("True", endSecond()), "the course of Available from a restart on (-want +got)")
		})
	}
}

// holdAnswer has the cloud, which nobody asks now, answer only once answer is called. answer waits until it is asked.
func (env *testEnv) holdAnswer(cloud *openstack.Cloud) (answer func()) {
	until, before := make(chan struct{}), cloud.Asked()
	remove := cloud.Inject(openstack.Fault{Service: openstack.Manila, Route: "/types", Until: until})
	return func() {
		env.t.Helper()
		cluster.Eventually(env.t, limit, "the operator to ask the cloud", func(context.Context) error {
			if cloud.Asked() == before {
				return errors.New("it has not asked")
			}
			return nil
		})
		remove()
		close(until)
	}
}

// recordAvailability returns what ends a record of the condition Available, and returns its statuses from now on.
func (env *testEnv) recordAvailability() (end func() string) {
	env.t.Helper()
	list := &operatorv1.ClusterCSIDriverList{}
	changes := env.Record(env.t, list, client.MatchingFields{metav1.ObjectNameField: env.driver.CSIName})
	return func() string {
		env.t.Helper()
		var course []string
		follow := func(custom *operatorv1.ClusterCSIDriver) {
			if now := string(condition(custom, operatorv1.OperatorStatusTypeAvailable).Status); now != "" {
				course = append(course, now)
			}
		}
		for i := range list.Items {
			follow(&list.Items[i])
		}
		for _, change := range changes() {
			follow(change.Object.(*operatorv1.ClusterCSIDriver))
		}
		now := &operatorv1.ClusterCSIDriver{} // the record may lack the last change
		require.NoError(env.t, env.Client().Get(env.t.Context(), client.ObjectKey{Name: env.driver.CSIName}, now))
		follow(now)
		return strings.Join(slices.Compact(course), " ")
	}
}

// TestOffersWithoutStorageClassAreReported: an offer that no StorageClass can be created for is not a failure, but it is
// reported, whether or not the backend can still be asked.
func TestOffersWithoutStorageClassAreReported(t *testing.T) {
	t.Parallel()
	cloud := openstack.Start(t, "not a name")
	env := newBackendTestEnv(t, cloud)
	env.create(env.customResource())
	stop := env.startOperator()
	custom := env.waitForBackend(operatorv1.ConditionTrue, operatorv1.ConditionTrue)
	assert.Contains(t, condition(custom, "ManilaControllerDisabled").Message, "no share type that a StorageClass can be made for", "without a class for any")

	cloud.SetShareTypes("gold", "Gold", "not a name")
	env.waitForClasses("csi-manila-gold")
	env.waitForReason("ManilaDriverSettingsApplied", "LeftOut")
	custom = env.waitForBackend(operatorv1.ConditionTrue, operatorv1.ConditionFalse)
	told := condition(custom, "ManilaDriverSettingsApplied").Message
	for _, part := range []string{`Share type "gold" gets no StorageClass: csi-manila-gold belongs to share type "Gold". `, `Share type "not a name" gets no StorageClass`} {
		assert.Contains(t, told, part, "the message")
	}
	env.waitForEvent("BackendLeftOut", `Share type "gold"`)
	env.waitForConditions(allWell)

	// The report stays until the backend answers again, even if the operator is restarted.
	stop()
	cloud.SetManila(openstack.Forbidden)
	env.startOperator()
	custom = env.waitForBackend(operatorv1.ConditionFalse, operatorv1.ConditionFalse)
	if got := condition(custom, "ManilaDriverSettingsApplied"); got.Message != told || got.Status != operatorv1.ConditionFalse {
		t.Errorf("while Manila cannot be asked, the condition is %s: %q", got.Status, got.Message)
	}

	cloud.SetManila(openstack.Up)
	cloud.SetShareTypes("Gold")
	env.waitForReason("ManilaDriverSettingsApplied", "AsExpected")
}

// TestWorkloadsOfEarlierOperatorsAreAdopted: they are adopted in place, and pods that serve volumes are replaced one by
// one.
func TestWorkloadsOfEarlierOperatorsAreAdopted(t *testing.T) {
	t.Parallel()
	forEachDriver(t, func(t *testing.T, env *testEnv) {
		if env.driver.Namespace != "" {
			home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.driver.Namespace}}
			require.NoError(t, client.IgnoreAlreadyExists(env.Client().Create(t.Context(), home)))
			// The cluster-scoped permissions prove that the namespace is the driver's.
			objects := env.objects()
			env.create(objects[slices.IndexFunc(objects, func(object client.Object) bool {
				return object.GetObjectKind().GroupVersionKind().Kind == "ClusterRoleBinding"
			})])
		}
		before := map[string]types.UID{}
		for _, object := range env.objects() {
			earlier := earlierWorkload(object)
			if earlier == nil {
				continue
			}
			env.create(earlier)
			before[nameOf(object)] = earlier.GetUID()
		}
		env.installDriver()
		now := env.uids()
		for name, uid := range before {
			assert.Equalf(t, uid, now[name], "UID of %s", name)
		}
	})
}

// earlierWorkload returns a workload that has only its name and selector in common with one of ours; nil for other kinds.
func earlierWorkload(object client.Object) client.Object {
	meta := metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}
	labels := selectorOf(object)
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "earlier", Image: "registry.example/earlier:1"}}}}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	switch object.GetObjectKind().GroupVersionKind().Kind {
	case "Deployment":
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: pod}}
	case "DaemonSet":
		return &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: pod}}
	}
	return nil
}
