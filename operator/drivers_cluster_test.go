package operator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/openstack"
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

// kept returns those of the driver's objects that outlive it, by kind and name.
func (env *testEnv) kept() map[string]bool {
	manifests, err := env.driver.Operand(drivers.Values{Namespace: env.home, Image: func(env string) string { return env }})
	if err != nil {
		env.t.Fatal(err)
	}
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

func testInstall(t *testing.T, env *testEnv) {
	custom := env.installDriver()

	if _, missing, err := env.existing(t.Context()); err != nil || len(missing) > 0 {
		t.Errorf("Available, but these objects are missing: %q (%v)", missing, err)
	}
	for _, write := range env.writes() {
		if !slices.Contains([]string{"", env.home, "openshift-cloud-credential-operator"}, write.Namespace) {
			t.Errorf("in an unrelated namespace the operator requested: %s %s %s/%s", write.Verb, write.Resource, write.Namespace, write.Name)
		}
	}
	if custom.Status.ObservedGeneration != custom.Generation {
		t.Errorf("observedGeneration is %d, want %d", custom.Status.ObservedGeneration, custom.Generation)
	}
	if custom.Status.Version != version {
		t.Errorf("version is %q, want %q", custom.Status.Version, version)
	}
	for _, object := range env.objects() {
		live := object.(*unstructured.Unstructured)
		if err := env.Client().Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
			t.Fatal(err)
		}
		text, err := live.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := drivers.CheckRendered(text); err != nil {
			t.Errorf("%s %s: %v", live.GetKind(), live.GetName(), err)
		}
	}

	for _, kind := range []string{"CSIDriver", "ServiceAccount"} {
		objects := env.objects()
		victim := objects[slices.IndexFunc(objects, func(o client.Object) bool { return o.GetObjectKind().GroupVersionKind().Kind == kind })]
		if err := env.Client().Get(t.Context(), client.ObjectKeyFromObject(victim), victim); err != nil {
			t.Fatal(err)
		}
		lost := victim.GetUID()
		if err := env.Client().Delete(t.Context(), victim); err != nil {
			t.Fatal(err)
		}
		cluster.Eventually(t, limit, kind+" to be recreated", func(ctx context.Context) error {
			if err := env.Client().Get(ctx, client.ObjectKeyFromObject(victim), victim); err != nil {
				return err
			}
			if victim.GetUID() == lost {
				return fmt.Errorf("the deleted one is still there")
			}
			return nil
		})
	}
}
