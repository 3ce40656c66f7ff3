package drivers_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/lab/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// TestApply: with only the permissions of OperatorRules, an operator can create each object of a driver, with every
// field, and watch, change and delete it.
func TestApply(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	for _, d := range everyDriver() {
		t.Run(d.Name, func(t *testing.T) {
			ns := c.Namespace(t)
			operator := resourcesOf(t, operatorOf(t, c, d, ns), c.Client().RESTMapper())
			manifests, err := d.Manifests(drivers.Values{Namespace: cmp.Or(d.Namespace, ns), Image: imageOf})
			require.NoError(t, err)
			for _, m := range manifests {
				if m.Object.GetKind() == "CustomResourceDefinition" {
					continue // not the operator's
				}
				t.Cleanup(func() { deleteObject(t, c, m.Object) })
				operator.try(t, m)
			}
		})
	}
}

// operatorOf returns the client configuration of an operator with a driver's rules.
func operatorOf(t *testing.T, c *cluster.Cluster, d drivers.Driver, ns string) *rest.Config {
	t.Helper()
	rules, err := d.OperatorPolicyRules(permissions.Removable)
	require.NoError(t, err)
	config := c.ServiceAccountConfig(t, ns, d.Operator.Name)
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: d.Operator.Name}}
	named := metav1.ObjectMeta{Name: ns, Namespace: ns}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: named, Rules: rules.Permissions},
		&rbacv1.RoleBinding{ObjectMeta: named, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: ns}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ns}, Rules: rules.ClusterPermissions},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: ns}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ns}},
	} {
		require.NoError(t, c.Client().Create(t.Context(), object))
		t.Cleanup(func() { deleteObject(t, c, object) })
	}
	return config
}

func deleteObject(t *testing.T, c *cluster.Cluster, object client.Object) {
	assert.NoErrorf(t, client.IgnoreNotFound(c.Client().Delete(context.Background(), object)), "deleting %T %s", object, object.GetName())
}

// resources reads and writes objects of all kinds with the permissions of one user.
type resources struct {
	client  dynamic.Interface
	mapping meta.RESTMapper
}

func resourcesOf(t *testing.T, config *rest.Config, mapping meta.RESTMapper) resources {
	t.Helper()
	dynamicClient, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return resources{dynamicClient, mapping}
}

func (r resources) of(t *testing.T, object *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	kind := object.GroupVersionKind()
	found, err := r.mapping.RESTMapping(kind.GroupKind(), kind.Version)
	require.NoError(t, err)
	return r.client.Resource(found.Resource).Namespace(object.GetNamespace())
}

// try does everything that an operator does with an object.
func (r resources) try(t *testing.T, m drivers.Manifest) {
	t.Helper()
	objects := r.of(t, m.Object)
	body, err := yaml.YAMLToJSON(m.YAML)
	require.NoError(t, err)
	force := true
	apply := func() error {
		_, err := objects.Patch(t.Context(), m.Object.GetName(), types.ApplyPatchType, body,
			metav1.PatchOptions{FieldManager: "operator", Force: &force, FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	remove := func() error {
		if err := objects.Delete(t.Context(), m.Object.GetName(), metav1.DeleteOptions{}); err != nil {
			return err
		}
		// Controllers may have to remove their finalizers first.
		cluster.Eventually(t, 30*time.Second, m.File+" to be gone", func(ctx context.Context) error {
			_, err := objects.Get(ctx, m.Object.GetName(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("still there; reading it gave error %v", err)
		})
		return nil
	}
	update := func() error {
		// The cluster's own controllers may write the object's status at the same time.
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			current, err := objects.Get(t.Context(), m.Object.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			_, err = objects.Update(t.Context(), current, metav1.UpdateOptions{})
			return err
		})
	}
	type request struct {
		what string
		do   func() error
	}
	requests := []request{{"create by applying", apply}, {"apply again", apply}}
	if kind := m.Object.GetKind(); kind == "Deployment" || kind == "DaemonSet" {
		requests = []request{{"create by applying", apply}, {"get and update", update}}
	}
	byName := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, m.Object.GetName()).String()}
	if !m.Kept() {
		requests = slices.Concat(requests, []request{{"delete", remove}}, requests)
	}
	requests = append(requests, []request{ // The object stays, as others may refer to it.
		{"list", func() error { _, err := objects.List(t.Context(), byName); return err }},
		{"watch", func() error {
			watch, err := objects.Watch(t.Context(), byName)
			if err == nil {
				watch.Stop()
			}
			return err
		}},
	}...)
	for _, r := range requests {
		assert.NoErrorf(t, r.do(), "%s: %s", m.File, r.what)
	}
}

// TestExamples: the API server accepts the examples of a driver unchanged.
func TestExamples(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	administrator := resourcesOf(t, c.Config(), c.Client().RESTMapper())
	for _, d := range everyDriver() {
		if !d.HasPackage() {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			manifests, err := d.Manifests(drivers.Values{Namespace: namespace, Image: imageOf})
			require.NoError(t, err)
			for _, m := range drivers.OfKind(manifests, "CustomResourceDefinition") {
				require.NoError(t, c.Client().Create(t.Context(), m.Object))
				t.Cleanup(func() { deleteObject(t, c, m.Object) })
				cluster.Eventually(t, 30*time.Second, m.Object.GetName()+" to be established", established(c, m.Object))
			}
			ns := c.Namespace(t)
			for _, example := range examples(t, d) {
				namespaced, err := c.Client().IsObjectNamespaced(example)
				require.NoError(t, err)
				if namespaced {
					example.SetNamespace(ns)
				}
				_, err = administrator.of(t, example).Create(t.Context(), example,
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
				assert.NoErrorf(t, err, "example %s", example.GetKind())
			}
		})
	}
}

// established returns a check that the API server serves a CustomResourceDefinition.
func established(c *cluster.Cluster, definition *unstructured.Unstructured) func(context.Context) error {
	return func(ctx context.Context) error {
		var current apiextensionsv1.CustomResourceDefinition
		if err := c.Client().Get(ctx, client.ObjectKeyFromObject(definition), &current); err != nil {
			return err
		}
		for _, condition := range current.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", current.Status.Conditions)
	}
}

// TestOperatorPodIsRestricted: an operator's pod complies with the strictest pod security standard.
func TestOperatorPodIsRestricted(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	for _, d := range everyDriver() {
		t.Run(d.Name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace(t)}}
			enforce := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))
			require.NoError(t, c.Client().Patch(t.Context(), ns, enforce))
			c.ServiceAccountConfig(t, ns.Name, d.Operator.Name)
			deployment := d.OperatorDeployment()
			deployment.Namespace = ns.Name
			pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
			pod.Name, pod.Namespace = "operator", ns.Name
			for _, object := range []client.Object{deployment, pod} {
				assert.NoError(t, c.Client().Create(t.Context(), object, client.DryRunAll))
			}
		})
	}
}
