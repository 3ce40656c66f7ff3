package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// asking returns a ClusterServiceVersion with rules for all of a cluster, and pods.
func asking(pod corev1.PodSpec, rules ...rbacv1.PolicyRule) *v1alpha1.ClusterServiceVersion {
	csv := &v1alpha1.ClusterServiceVersion{}
	csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{{Rules: rules}}
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{{Name: "tide", Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}}
	return csv
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// risksOf returns the risks of the requests that only the later ClusterServiceVersion has.
func risksOf(t *testing.T, before, after *v1alpha1.ClusterServiceVersion) []Risk {
	t.Helper()
	c, err := Compare(Version{CSV: before}, Version{CSV: after})
	require.NoError(t, err)
	return c.Risks
}

// TestNewRisks: the worst comes first, and requests of the earlier version are not new.
func TestNewRisks(t *testing.T) {
	const rbac = "rbac.authorization.k8s.io"
	yes := true
	before := asking(corev1.PodSpec{HostNetwork: true}, rule("", "secrets", "get"), rule("apps", "deployments", "*"), rule("", "pods", "get"))
	after := asking(corev1.PodSpec{HostNetwork: true,
		Containers: []corev1.Container{{Name: "driver", SecurityContext: &corev1.SecurityContext{Privileged: &yes}}},
		Volumes:    []corev1.Volume{{Name: "keys", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}}}},
		rule("", "secrets", "get", "list"), rule("apps", "deployments", "get"), rule("", "pods", "get", "list"), rule("batch", "*", "get"),
		rule(rbac, "clusterroles", "escalate", "get"), rule("", "users", "impersonate"), rule("", "nodes/proxy", "get"), rule(rbac, "roles", "bind"))
	want := []Risk{
		{"cluster rbac.authorization.k8s.io/clusterroles (escalate, get)", "gives itself any permission"},
		{"cluster rbac.authorization.k8s.io/roles (bind)", "gives itself any role"},
		{"cluster users (impersonate)", "acts as somebody else"},
		{"cluster secrets (list)", "reads credentials"},
		{"cluster nodes/proxy (get)", "runs commands in any pod"},
		{"cluster batch/* (get)", wildcard},
		{"Deployment tide: container driver is privileged", "is root on the node"},
		{"Deployment tide: volume keys is /etc of the node", "reads or writes files of the node"},
	}
	assert.Empty(t, cmp.Diff(want, risksOf(t, before, after)))
	assert.Empty(t, risksOf(t, after, after), "between the same versions")
	everything := risksOf(t, asking(corev1.PodSpec{}), asking(corev1.PodSpec{}, rule("*", "*", "*"), rule("", "*", "get"), rule(rbac, "*", "*")))
	if len(everything) != 3 || everything[0].Why != dangers[0].why || everything[1].Why != "gives itself any permission" || everything[2].Why != "reads credentials" {
		t.Errorf("of everything: %v", everything)
	}
}

// object returns an object of a bundle.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &o.Object))
	return o
}

// TestCompare: bindings in the bundle also grant permissions; removed versions of CustomResourceDefinitions and images without a
// digest are risks of an update; and dropped requests are listed.
func TestCompare(t *testing.T) {
	crd := func(versions string) *unstructured.Unstructured {
		return object(t, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: tides.sea}\nspec: {versions: ["+versions+"]}")
	}
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: tide}\nrules: [{apiGroups: [\"\"], resources: [secrets], verbs: [get]}]"
	binding := func(kind, of string) *unstructured.Unstructured {
		return object(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: "+kind+"\nmetadata: {name: own}\nroleRef: {kind: ClusterRole, name: "+of+"}")
	}
	empty := asking(corev1.PodSpec{})
	for name, tc := range map[string]struct {
		before, after Version
		risks, gone   []string
	}{
		"nothing":                  {Version{}, Version{CSV: empty}, nil, nil},
		"a role without a binding": {Version{}, Version{Objects: []*unstructured.Unstructured{object(t, role)}}, nil, nil},
		"a role of the bundle, bound before it is there": {Version{}, Version{Objects: []*unstructured.Unstructured{binding("ClusterRoleBinding", "tide"), object(t, role)}},
			[]string{"cluster secrets (get): reads credentials"}, nil},
		"a role in its namespace": {Version{}, Version{Objects: []*unstructured.Unstructured{object(t, role), binding("RoleBinding", "tide")}},
			[]string{"namespace secrets (get): reads credentials"}, nil},
		"a role of others, and everything": {Version{}, Version{CSV: asking(corev1.PodSpec{}, rule("", "secrets", "get")), Objects: []*unstructured.Unstructured{binding("ClusterRoleBinding", "cluster-admin"), binding("RoleBinding", "view")}},
			[]string{"ClusterRoleBinding own: ClusterRole cluster-admin: everything: it is an administrator of the cluster", "cluster secrets (get): reads credentials",
				"RoleBinding own: ClusterRole view: has the permissions of that role"}, nil},
		"a version is gone": {Version{Objects: []*unstructured.Unstructured{crd("{name: v1}, {name: v2}")}}, Version{Objects: []*unstructured.Unstructured{crd("{name: v2}")}},
			[]string{"CustomResourceDefinition tides.sea: version v1 is gone: " + unstored}, nil},
		"a definition is gone": {Version{Objects: []*unstructured.Unstructured{crd("{name: v1}")}}, Version{}, nil, nil},
		"images": {Version{Images: map[string]string{"a": "a:1", "b": "b@sha256:1", "c": "c@sha256:1"}}, Version{Images: map[string]string{"a": "a:2", "b": "b:2", "c": "c@sha256:2", "d": "d:1"}},
			[]string{"image b:2 has no digest: " + floating, "image d:1 has no digest: " + floating}, nil},
		"less": {Version{CSV: asking(corev1.PodSpec{HostPID: true}, rule("", "secrets", "get", "list"))}, Version{CSV: asking(corev1.PodSpec{}, rule("", "secrets", "get"))},
			nil, []string{"cluster secrets (list): reads credentials", "Deployment tide: hostPID: is not separated from the node"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Compare(tc.before, tc.after)
			require.NoError(t, err)
			texts := func(risks []Risk) (all []string) {
				for _, r := range risks {
					all = append(all, r.What+": "+r.Why)
				}
				return all
			}
			assert.Empty(t, cmp.Diff([2][]string{tc.risks, tc.gone}, [2][]string{texts(c.Risks), texts(c.Dropped)}))
		})
	}
	if _, err := Compare(Version{}, Version{Objects: []*unstructured.Unstructured{object(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: tide}\nrules: tide")}}); err == nil {
		t.Error("rules that are a text are compared")
	}
}

// TestCombinations: a short rule can give very many permissions, and each binding gives those of its role again.
func TestCombinations(t *testing.T) {
	many := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("a%d", i))
		}
		return names
	}
	const refusal = ": its rules have more than 100000 combinations of a group, a resource and a verb; expected fewer"
	wide := asking(corev1.PodSpec{}, rbacv1.PolicyRule{APIGroups: many(47), Resources: many(47), Verbs: many(46)})
	wide.Name = "tide.v1.0.0"
	_, err := Compare(Version{}, Version{CSV: wide})
	assert.EqualError(t, err, "ClusterServiceVersion tide.v1.0.0"+refusal)
	wide = asking(corev1.PodSpec{}, rbacv1.PolicyRule{APIGroups: many(46), Resources: many(46), Verbs: many(46)})
	_, err = Compare(Version{}, Version{CSV: wide})
	require.NoError(t, err)

	objects := []*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "tide"},
		"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"pods", "nodes"}, "verbs": []any{"get"}}}}}}
	for i := range 50_001 {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
			"metadata": map[string]any{"name": fmt.Sprintf("tide-%d", i)}, "roleRef": map[string]any{"kind": "ClusterRole", "name": "tide"}}})
	}
	_, err = Compare(Version{}, Version{Objects: objects})
	assert.EqualError(t, err, "RoleBinding tide-50000"+refusal)
}

// TestLongTexts: a long text of a rule is in each of its combinations.
func TestLongTexts(t *testing.T) {
	short, long := []string{"a", "b", "c"}, []string{strings.Repeat("t", maxSpelled/4)}
	for name, rule := range map[string]rbacv1.PolicyRule{
		"name":         {APIGroups: short, Resources: short, Verbs: short, ResourceNames: long},
		"verb":         {APIGroups: short, Resources: short, Verbs: long},
		"group":        {APIGroups: long, Resources: append(short, short...), Verbs: short},
		"resource":     {APIGroups: append(short, short...), Resources: long, Verbs: short},
		"verb of URLs": {NonResourceURLs: append(short, short...), Verbs: long},
	} {
		_, err := Compare(Version{}, Version{CSV: asking(corev1.PodSpec{}, rule)})
		assert.ErrorContains(t, err, "the combinations of a group, a resource and a verb in its rules have more than 16777216 bytes", name)
	}
	_, err := Compare(Version{}, Version{CSV: asking(corev1.PodSpec{}, rbacv1.PolicyRule{APIGroups: short[:1], Resources: short, Verbs: short, ResourceNames: long})})
	assert.NoError(t, err)
}

// TestImagesOf: an image has its name in the list of the ClusterServiceVersion.
func TestImagesOf(t *testing.T) {
	csv := asking(corev1.PodSpec{Containers: []corev1.Container{{Image: "example.com:5000/tide:v1"}, {Image: "example.com/ebb@sha256:1"}}})
	csv.Spec.RelatedImages = []v1alpha1.RelatedImage{{Name: "main", Image: "example.com:5000/tide:v1"}, {Image: "example.com/moon:v1"}}
	want := map[string]string{"main": "example.com:5000/tide:v1", "example.com/ebb": "example.com/ebb@sha256:1", "example.com/moon": "example.com/moon:v1"}
	assert.Empty(t, cmp.Diff(want, ImagesOf(csv)))
}
