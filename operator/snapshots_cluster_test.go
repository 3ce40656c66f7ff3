package operator_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/controllers"
)

// TestSnapshotClass: a cluster without the snapshot API gets the driver, and the VolumeSnapshotClass once the API is there.
// The driver can be removed from a cluster without it, too.
func TestSnapshotClass(t *testing.T) {
	t.Parallel()
	driver := ebsDriver(t)
	env := newTestEnvWith(t, driver)
	restore := env.withoutAPI("volumesnapshotclasses.snapshot.storage.k8s.io")
	env.withoutAPI("volumesnapshotcontents.snapshot.storage.k8s.io")

	env.installDriver()
	restore()
	class := &unstructured.Unstructured{}
	class.SetAPIVersion("snapshot.storage.k8s.io/v1")
	class.SetKind("VolumeSnapshotClass")
	// The operator looks for the API again whenever it reconciles the driver's objects: once a minute, or when one changes.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.home, Name: "aws-ebs-csi-driver-node-sa"}}
	cluster.Eventually(t, limit, "the VolumeSnapshotClass", func(ctx context.Context) error {
		change(env, account, func(a *corev1.ServiceAccount) {
			metav1.SetMetaDataAnnotation(&a.ObjectMeta, "example.com/now", time.Now().String())
		})
		return env.Client().Get(ctx, client.ObjectKey{Name: "csi-aws-vsc"}, class)
	})
	if class.Object["driver"] != driver.CSIName || class.Object["deletionPolicy"] != "Delete" {
		t.Errorf("the class is %v", class.Object)
	}
	assert.NotContains(t, class.GetAnnotations(), "snapshot.storage.kubernetes.io/is-default-class", "the default is left to the administrator")
	env.deleteCustomResource()
	cluster.Eventually(t, limit, "the class to be removed", env.Gone(class))
	cluster.Eventually(t, limit, "the ClusterCSIDriver to be gone", env.Gone(env.customResource()))
}

// TestSnapshotParameters: the classes have the parameters that the cluster's configuration asks for, and follow it.
func TestSnapshotParameters(t *testing.T) {
	t.Parallel()
	driver := ebsDriver(t)
	driver.SnapshotParameters = func(c drivers.Cluster) map[string]string {
		if aws := c.Infrastructure.Status.PlatformStatus.AWS; aws != nil {
			return map[string]string{"region": aws.Region}
		}
		return nil
	}
	env := newTestEnvWith(t, driver)
	env.installDriver()
	class := &unstructured.Unstructured{}
	class.SetAPIVersion("snapshot.storage.k8s.io/v1")
	class.SetKind("VolumeSnapshotClass")
	want := func(region string) {
		t.Helper()
		cluster.Eventually(t, limit, "the class to have the parameters", func(ctx context.Context) error {
			if err := env.Client().Get(ctx, client.ObjectKey{Name: "csi-aws-vsc"}, class); err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedString(class.Object, "parameters", "region"); got != region {
				return fmt.Errorf("it is %v, want the region %s", class.Object, region)
			}
			return nil
		})
	}
	infrastructure := &configv1.Infrastructure{ObjectMeta: singleton}
	for _, region := range []string{"us-east-1", "us-west-2"} {
		during(env, infrastructure, func(i *configv1.Infrastructure) {
			i.Status.PlatformStatus = &configv1.PlatformStatus{Type: configv1.AWSPlatformType, AWS: &configv1.AWSPlatformStatus{Region: region}}
		})
		want(region)
	}
	change(env, class, func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "parameters") })
	want("us-west-2")
}

// TestDefaultSnapshotClass: the class of a driver that its platform needs becomes the driver's default in a fresh cluster, and in no
// other one. From then on, administrators decide.
func TestDefaultSnapshotClass(t *testing.T) {
	t.Parallel()
	const annotation = "snapshot.storage.kubernetes.io/is-default-class"
	for _, tc := range []struct {
		name  string
		given map[string]any // a class of somebody else
		olm   bool           // OLM ran the operator before
		then  string         // an administrator's value of the annotation, as JSON
		want  string
	}{
		{name: "a fresh cluster", want: "true"},
		{name: "the driver has a default", given: map[string]any{"driver": "ebs.csi.aws.com"}},
		{name: "another driver has a default", given: map[string]any{"driver": "mine.example.com"}, want: "true"},
		{name: "the class was there", olm: true},
		{name: "an administrator sets the annotation to false", then: `"false"`, want: "false"},
		{name: "an administrator removes the annotation", then: "null"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := newTestEnvWith(t, ebsDriver(t))
			if tc.given != nil {
				mine := snapshotClass("mine")
				mine.SetAnnotations(map[string]string{annotation: "true"})
				mine.Object["driver"], mine.Object["deletionPolicy"] = tc.given["driver"], "Delete"
				env.create(mine)
				t.Cleanup(func() {
					assert.NoError(t, env.Client().Delete(context.Background(), mine))
				})
			}
			env.create(env.customResource())
			if tc.olm {
				stop := env.startOperator()
				env.waitForConditions(allWell)
				stop()
			}
			env.makePermanent()
			stop := env.startOperator()
			env.waitForConditions(allWell)
			class := snapshotClass("csi-aws-vsc")
			recorded := func(want string) {
				t.Helper()
				cluster.Eventually(t, limit, "the record "+want, func(ctx context.Context) error {
					custom := env.customResource()
					if err := env.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
						return err
					}
					if got := custom.Annotations[controllers.DefaultSnapshotClassAnnotation]; got != want {
						return fmt.Errorf("it is %q", got)
					}
					return nil
				})
				require.NoError(t, env.Client().Get(t.Context(), client.ObjectKeyFromObject(class), class))
			}
			want := strconv.FormatBool(tc.want == "true")
			if tc.then != "" {
				recorded("true")
				patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, annotation, tc.then)
				require.NoError(t, env.Client().Patch(t.Context(), class, client.RawPatch(types.MergePatchType, []byte(patch))))
			}
			recorded(want)
			assert.EqualValues(t, tc.want, class.GetAnnotations()[annotation], "the annotation")

			// It comes back as it was, also with another operator.
			stop()
			env.startOperator()
			before := class.GetUID()
			require.NoError(t, env.Client().Delete(t.Context(), class))
			env.Await(t, limit, "the class to be created again", class, func() error {
				if class.GetUID() == before {
					return fmt.Errorf("it is the one before")
				}
				return nil
			})
			assert.Equal(t, tc.want == "true", class.GetAnnotations()[annotation] == "true", "recreated, the class is the default")
		})
	}
}

func snapshotClass(name string) *unstructured.Unstructured {
	class := &unstructured.Unstructured{}
	class.SetAPIVersion("snapshot.storage.k8s.io/v1")
	class.SetKind("VolumeSnapshotClass")
	class.SetName(name)
	return class
}

// withoutAPI takes an API away from the cluster until restore is called or the test ends.
func (env *testEnv) withoutAPI(name string) (restore func()) {
	env.t.Helper()
	api := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(env.t, env.Client().Get(env.t.Context(), client.ObjectKeyFromObject(api), api))
	require.NoError(env.t, env.Client().Delete(env.t.Context(), api))
	cluster.Eventually(env.t, limit, "the API "+name+" to be gone", env.Gone(api))
	restore = sync.OnceFunc(func() {
		again := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: api.Name, Annotations: api.Annotations}, Spec: api.Spec}
		assert.NoError(env.t, env.Client().Create(context.Background(), again))
	})
	env.t.Cleanup(restore)
	return restore
}
