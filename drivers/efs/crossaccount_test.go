package efs_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/page"
)

// TestCrossAccountSecret: with the objects in the documentation, the provisioner can read the Secret that the
// StorageClass names, with its own token, and no other.
func TestCrossAccountSecret(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	driver, accounts := c.Namespace(t), c.Namespace(t)
	create := func(object client.Object) {
		t.Helper()
		require.NoError(t, c.Client().Create(t.Context(), object))
	}
	for _, m := range manifests(t, efs.Driver, driver) {
		if m.Object.GetKind() != "ClusterRole" && m.Object.GetKind() != "ClusterRoleBinding" {
			continue
		}
		object := m.Object.DeepCopy()
		object.SetName(driver + "-" + object.GetName())
		if m.Object.GetKind() == "ClusterRoleBinding" {
			require.NoError(t, unstructured.SetNestedField(object.Object, object.GetName(), "roleRef", "name"))
		}
		create(object)
		t.Cleanup(func() { deleteObject(t, c, object) })
	}
	documented := page.Objects(t, "../../docs/operate/cross-account.md", strings.NewReplacer("efs-accounts", accounts, "openshift-cluster-csi-drivers", driver))
	class := documented["StorageClass"]
	parameters, _, _ := unstructured.NestedStringMap(class.Object, "parameters")
	named := client.ObjectKey{Namespace: parameters["csi.storage.k8s.io/provisioner-secret-namespace"], Name: parameters["csi.storage.k8s.io/provisioner-secret-name"]}
	create(documented["Secret"])
	create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: accounts, Name: "payroll"}})
	create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: driver, Name: named.Name}})
	assert.NoError(t, c.Client().Create(t.Context(), class, client.DryRunAll), "the StorageClass")

	account := provisionerAccount(t, driver)
	provisioner, err := kubernetes.NewForConfig(c.ServiceAccountConfig(t, driver, account))
	require.NoError(t, err)
	// As the provisioner reads it: from the API server, by its name.
	read := func(namespace, name string) error {
		_, err := provisioner.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err
	}
	err = read(named.Namespace, named.Name)
	assert.Truef(t, apierrors.IsForbidden(err), "without the grant, reading Secret %s: %v, want Forbidden", named, err)
	create(documented["Role"])
	create(documented["RoleBinding"])
	cluster.Eventually(t, time.Minute, "the provisioner to read Secret "+named.String(), func(context.Context) error {
		return read(named.Namespace, named.Name)
	})
	for _, other := range []client.ObjectKey{{Namespace: accounts, Name: "payroll"}, {Namespace: driver, Name: named.Name}} {
		err := read(other.Namespace, other.Name)
		assert.Truef(t, apierrors.IsForbidden(err), "reading Secret %s: %v, want Forbidden", other, err)
	}
	_, err = provisioner.CoreV1().Secrets(accounts).List(t.Context(), metav1.ListOptions{})
	assert.Truef(t, apierrors.IsForbidden(err), "listing Secrets: %v, want Forbidden", err)
	secret := &corev1.Secret{}
	require.NoError(t, c.Client().Get(t.Context(), named, secret))
	assert.Empty(t, cmp.Diff(map[string][]byte{"awsRoleArn": []byte("arn:aws:iam::210987654321:role/efs-of-finance")}, secret.Data), "the Secret (-want +got)")
}

// provisionerAccount returns the service account of the pod with the provisioner.
func provisionerAccount(t *testing.T, namespace string) string {
	t.Helper()
	deployment := drivers.OfKind(manifests(t, efs.Driver, namespace), "Deployment")[0]
	account, _, _ := unstructured.NestedString(deployment.Object.Object, "spec", "template", "spec", "serviceAccountName")
	return account
}

func deleteObject(t *testing.T, c *cluster.Cluster, object client.Object) {
	assert.NoError(t, client.IgnoreNotFound(c.Client().Delete(context.Background(), object)))
}
