package operator_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers/placement"
)

// real45 has the objects that the EBS operator of OpenShift 4.5 creates. It is beside a checkout of this repository.
const real45 = "../../shared/fixtures/olm-4.5/aws-ebs-csi-driver-operator/assets"

// small45 is the same, reduced to the parts that matter for a takeover.
var small45 = map[string]string{
	"namespace": `{apiVersion: v1, kind: Namespace, metadata: {name: openshift-aws-ebs-csi-driver}}`,
	"binding": `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: ebs-csi-attacher-binding},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ebs-external-attacher-role},
		subjects: [{kind: ServiceAccount, namespace: openshift-aws-ebs-csi-driver, name: aws-ebs-csi-driver-controller-sa}]}`,
	"controller": `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: openshift-aws-ebs-csi-driver, name: aws-ebs-csi-driver-controller},
		spec: {selector: {matchLabels: {app: aws-ebs-csi-driver-controller}}, template: {metadata: {labels: {app: aws-ebs-csi-driver-controller}},
		spec: {containers: [{name: csi-driver, image: old}]}}}}`,
	"node": `{apiVersion: apps/v1, kind: DaemonSet, metadata: {namespace: openshift-aws-ebs-csi-driver, name: aws-ebs-csi-driver-node},
		spec: {selector: {matchLabels: {app: aws-ebs-csi-driver-node}}, template: {metadata: {labels: {app: aws-ebs-csi-driver-node}},
		spec: {containers: [{name: csi-driver, image: old}]}}}}`,
}

// TestTakeoverFromOpenShift45: the driver of OpenShift 4.5 is found in its namespace and updated in place.
func TestTakeoverFromOpenShift45(t *testing.T) {
	t.Parallel()
	t.Run("reduced", func(t *testing.T) { testTakeover45(t, small45) })
	t.Run("real", func(t *testing.T) {
		files := map[string]string{}
		err := filepath.WalkDir(real45, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			// Clusters convert the objects of APIs that they do not serve any more.
			files[path] = strings.ReplaceAll(string(data), "storage.k8s.io/v1beta1", "storage.k8s.io/v1")
			return err
		})
		if os.IsNotExist(err) {
			t.Skipf("%v: the objects of OpenShift 4.5's operator are not part of this repository", err)
		}
		require.NoError(t, err)
		testTakeover45(t, files)
	})
}

func testTakeover45(t *testing.T, files map[string]string) {
	driver := ebsDriver(t)
	env := newTestEnvWith(t, driver)
	workloads := map[string]*unstructured.Unstructured{}
	var rest []*unstructured.Unstructured
	for path, content := range files {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(content), &object.Object), path)
		switch object.GetKind() {
		case "Namespace":
			// An earlier test may have left it.
			require.NoError(t, client.IgnoreAlreadyExists(env.Client().Create(t.Context(), object)))
			change(env, object, func(o *unstructured.Unstructured) {
				labels := o.GetLabels()
				delete(labels, placement.ProofLabel)
				o.SetLabels(labels)
			})
		case "Deployment", "DaemonSet":
			workloads[object.GetKind()] = object
			rest = append(rest, object)
		default:
			rest = append(rest, object)
		}
	}
	for _, object := range rest {
		env.create(object)
		t.Cleanup(func() { deleteIfThere(t, env, object) })
	}
	require.Lenf(t, workloads, 2, "found %d workloads, want a Deployment and a DaemonSet", len(workloads))

	env.installDriver()
	for kind, old := range workloads {
		now := old.DeepCopy()
		require.NoError(t, env.Client().Get(t.Context(), client.ObjectKeyFromObject(old), now))
		assert.Equalf(t, old.GetUID(), now.GetUID(), "UID of %s %s", kind, old.GetName())
		assert.Emptyf(t, cmp.Diff(selectorOf(old), selectorOf(now)), "selector of %s (-before +after)", kind)
		assert.NotEqualf(t, old.GetGeneration(), now.GetGeneration(), "generation of %s %s, which is updated", kind, old.GetName())
	}
}

func deleteIfThere(t *testing.T, env *testEnv, object client.Object) {
	t.Helper()
	assert.NoError(t, client.IgnoreNotFound(env.Client().Delete(context.Background(), object)))
}
