package operator_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/openstack"
)

// What every driver's operator does.

// forEachDriver runs a test for each driver that OLM installs, on a cloud that has everything the driver needs. The operators of
// the others run in test/clusterstorage, in the namespace that the cluster version operator creates for them.
func forEachDriver(t *testing.T, test func(t *testing.T, env *testEnv)) {
	for _, driver := range registry.Packaged() {
		t.Run(driver.Name, func(t *testing.T) {
			env := newTestEnvWith(t, driver)
			if driver.Backend != nil {
				env.enterCloud(openstack.Start(t, "default"))
			}
			test(t, env)
		})
	}
}

// nameOf returns an object's kind and name.
func nameOf(object client.Object) string {
	return object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetName()
}

// kept returns the driver's objects that outlive it, by kind and name.
func (env *testEnv) kept() map[string]bool {
	manifests, err := env.driver.Operand(drivers.Values{Namespace: env.home, Image: func(env string) string { return env }})
	require.NoError(env.t, err)
	kept := map[string]bool{}
	for _, m := range manifests {
		if m.Kept() {
			kept[nameOf(m.Object)] = true
		}
	}
	return kept
}

func TestInstall(t *testing.T) {
	t.Parallel()
	forEachDriver(t, testInstall)
}

// openshiftConditions are the types, without the driver's prefix, that OpenShift's operators of these drivers write, too. Commands and
// runbooks wait for them.
var openshiftConditions = regexp.MustCompile(
	`^(Available|Progressing|Degraded|DriverStorageClassControllerDegraded|ControllerDisabled|.*ConfigObservationDegraded|` +
		`(Driver(Controller|Node)ServiceController|NodeCredentialsRequestController)(Available|Progressing|Degraded))$`)

// checkConditions checks that a healthy ClusterCSIDriver has few enough conditions to read them.
func checkConditions(t *testing.T, driver drivers.Driver, custom *operatorv1.ClusterCSIDriver) {
	t.Helper()
	var all, own []string
	for _, c := range custom.Status.Conditions {
		all = append(all, c.Type)
		if !openshiftConditions.MatchString(strings.TrimPrefix(c.Type, driver.ConditionPrefix)) {
			own = append(own, c.Type)
		}
	}
	t.Logf("conditions: %q", all)
	if len(all) > 22 || len(own) > 8 {
		t.Errorf("there are %d conditions, %d of them of types that no operator of OpenShift writes; want at most 22 and 8: %q and %q", len(all), len(own), all, own)
	}
	for _, component := range []string{"DriverControllerServiceController", "DriverNodeServiceController"} {
		for _, kind := range []string{"Available", "Progressing", "Degraded"} {
			assert.Containsf(t, all, driver.ConditionPrefix+component+kind, "condition %s is not there", driver.ConditionPrefix+component+kind)
		}
	}
}

func testInstall(t *testing.T, env *testEnv) {
	custom := env.installDriver()

	if _, missing, err := env.existing(t.Context()); err != nil || len(missing) > 0 {
		t.Errorf("Available, but these objects are missing: %q (%v)", missing, err)
	}
	for _, write := range env.writes() {
		assert.Containsf(t, []string{"", env.home, "openshift-cloud-credential-operator"}, write.Namespace, "namespace of a request: %s %s %s", write.Verb, write.Resource, write.Name)
	}
	checkConditions(t, env.driver, custom)
	assert.EqualValues(t, custom.Generation, custom.Status.ObservedGeneration, "observedGeneration")
	assert.EqualValues(t, version, custom.Status.Version, "version")
	for _, object := range env.objects() {
		live := object.(*unstructured.Unstructured)
		require.NoError(t, env.Client().Get(t.Context(), client.ObjectKeyFromObject(live), live))
		text, err := live.MarshalJSON()
		require.NoError(t, err)
		assert.NoErrorf(t, drivers.CheckRendered(text), "%s %s", live.GetKind(), live.GetName())
	}

	for _, kind := range []string{"CSIDriver", "ServiceAccount"} {
		objects := env.objects()
		victim := objects[slices.IndexFunc(objects, func(o client.Object) bool { return o.GetObjectKind().GroupVersionKind().Kind == kind })]
		require.NoError(t, env.Client().Get(t.Context(), client.ObjectKeyFromObject(victim), victim))
		lost := victim.GetUID()
		require.NoError(t, env.Client().Delete(t.Context(), victim))
		env.Await(t, limit, kind+" to be recreated", victim, func() error {
			if victim.GetUID() == lost {
				return fmt.Errorf("the deleted one is still there")
			}
			return nil
		})
	}
}
