package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/crds"
	"github.com/berth-csi/berth/test/mustgather"
)

// installedByOLMv1 are OLM v1's objects in a cluster for operator boat, in its namespace, and the administrator's
// request.
const installedByOLMv1 = `
apiVersion: olm.operatorframework.io/v1
kind: ClusterCatalog
metadata: {name: sea}
spec: {source: {type: Image, image: {ref: registry.example/sea:latest}}}
---
apiVersion: olm.operatorframework.io/v1
kind: ClusterObjectSet
metadata: {name: boat-1}
spec:
  collisionProtection: Prevent
  lifecycleState: Active
  revision: 1
  phases:
  - name: deploy
    objects:
    - object: {apiVersion: v1, kind: Secret, metadata: {name: boat, namespace: $BOAT}, stringData: {key: $SECRET}}
      collisionProtection: None
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: boats.example.com
  labels: {olm.operatorframework.io/owner-kind: ClusterExtension, olm.operatorframework.io/owner-name: boat}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Boat, plural: boats}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: example.com/v1
kind: Boat
metadata: {name: ferry}
`

// TestMustGatherOfOLMv1: only cluster-scoped objects tell an operator's ClusterExtension. Their secret fields are left
// out, also where kubectl could not print the object as YAML.
func TestMustGatherOfOLMv1(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	require.NoError(t, crds.OLMv1Experimental.Create(t.Context(), c.Client()))
	boat, raft, tug := c.Namespace(t), c.Namespace(t), c.Namespace(t)
	for document := range strings.SplitSeq(strings.NewReplacer("$BOAT", boat, "$SECRET", marker).Replace(installedByOLMv1), "\n---\n") {
		createWhenServed(t, c, document)
	}
	extend(t, c, "boat", boat)
	extend(t, c, "raft", raft)
	extend(t, c, "tug", boat)
	installOperator(t, c, "boat", boat, predecessor.LabelsOf("boat"), nil)
	installOperator(t, c, "raft", raft, nil, predecessor.LabelsOf("raft")) // anyone who may write there could have created it
	installOperator(t, c, "tug", tug, predecessor.LabelsOf("tug"), nil)    // the ClusterExtension is for another namespace

	for _, unprintable := range []bool{false, true} {
		if unprintable {
			for _, name := range []string{"clusterextension/boat", "clusterobjectset/boat-1"} {
				out, err := c.Kubectl(t.Context(), "annotate", name, "note=\u009b").CombinedOutput()
				require.NoErrorf(t, err, "%s", out)
			}
		}
		folder, _ := gather(t, c)
		files := mustgather.Files(t, folder)
		mustgather.Check(t, files, map[string]string{
			"version":                                                     "boat.v1.0.0",
			"cluster/clustercatalogs.yaml":                                "ref: registry.example/sea:latest",
			"cluster/clusterextensions.yaml":                              "inline: <left out>\n",
			"cluster/clusterobjectsets.yaml":                              "object: <left out>\n",
			"boat.csi.example.com/operator/clusterroles.yaml":             "- clustercsidrivers",
			"boat.csi.example.com/operator/clusterrolebindings.yaml":      "namespace: " + boat,
			"boat.csi.example.com/apis/boats.example.com/definition.yaml": "kind: CustomResourceDefinition",
			"boat.csi.example.com/apis/boats.example.com/objects.yaml":    "name: ferry",
		})
		for name, content := range files {
			assert.NotContainsf(t, content, marker, "%s holds a secret", name)
			if err := yaml.Unmarshal([]byte(content), &map[string]any{}); err != nil && strings.HasSuffix(name, ".yaml") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if versions := files["version"]; strings.Contains(versions, "raft") || strings.Contains(versions, "tug") {
			t.Errorf("the versions are %q, want that of boat alone", versions)
		}
		for name, namespace := range map[string]string{"boat": boat, "raft": raft, "tug": tug} {
			note := fmt.Sprintf("%s.csi.example.com/operator: neither a ClusterExtension nor a ClusterServiceVersion owns Deployment %s/%s, ", name, namespace, name)
			assert.Equalf(t, name != "boat", strings.Contains(files["missing.txt"], note), "missing.txt says %q:\n%s", note, files["missing.txt"])
		}
		assert.NotContains(t, files["missing.txt"], "clusterextensionrevisions", "missing.txt complains about an API of other versions of OLM")
	}
}

// createWhenServed creates an object, as soon as the API server serves its API.
func createWhenServed(t *testing.T, c *cluster.Cluster, document string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(document), &object.Object))
	cluster.Eventually(t, limit, "the API server to create "+object.GetName(), func(ctx context.Context) error { return c.Client().Create(ctx, object) })
	return object
}

// extend creates a ClusterExtension with version 1.0.0 installed in a namespace.
func extend(t *testing.T, c *cluster.Cluster, name, namespace string) {
	t.Helper()
	extension := createWhenServed(t, c, fmt.Sprintf("{apiVersion: olm.operatorframework.io/v1, kind: ClusterExtension, metadata: {name: %s}, spec: {namespace: %s, "+
		"source: {sourceType: Catalog, catalog: {packageName: %[1]s}}, config: {configType: Inline, inline: {some: [%[3]s], other: {key: %[3]s}}}}}", name, namespace, marker))
	extension.Object["status"] = map[string]any{"install": map[string]any{"bundle": map[string]any{"name": name + ".v1.0.0", "version": "1.0.0"}}}
	require.NoError(t, c.Client().Status().Update(t.Context(), extension))
}

// installOperator creates the operator of a driver: its permissions, and its Deployment, with labels.
func installOperator(t *testing.T, c *cluster.Cluster, name, namespace string, permissions, deployment map[string]string) {
	t.Helper()
	driver := name + ".csi.example.com"
	workload := map[string]string{"berth.dev/csi-driver": driver}
	maps.Copy(workload, deployment)
	pod := map[string]string{"app": name}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: permissions}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"operator.openshift.io"}, Resources: []string{"clustercsidrivers"}, ResourceNames: []string{driver}, Verbs: []string{"get"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: permissions},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: deployment},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: workload}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "operator", Image: "registry.example/" + name + ":1"}}}}}},
	} {
		require.NoError(t, c.Client().Create(t.Context(), object))
	}
}
