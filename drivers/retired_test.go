package drivers_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/drivers/sample"
)

// TestRetiredObjectsHaveExactPermissions: to retire objects, an operator needs to read and delete objects of these
// names, and nothing else.
func TestRetiredObjectsHaveExactPermissions(t *testing.T) {
	before, err := sample.Driver.OperatorRules(permissions.Removable)
	require.NoError(t, err)
	d := sample.Driver
	d.Retired = []drivers.Retired{
		{Kind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Namespace: drivers.NamespacePlaceholder, Name: "old-controller", Since: "1.1.0"},
		{Kind: drivers.ClusterRoleBindingKind, Name: "old-binding", Since: "1.2.0"},
	}
	after, err := d.OperatorRules(permissions.Removable)
	require.NoError(t, err)
	added := permissions.SetOf(after)
	for p := range permissions.SetOf(before) {
		assert.Truef(t, added[p], "permission %v is gone", p)
		delete(added, p)
	}
	want := permissions.Set{}
	for _, verb := range []string{"get", "delete"} {
		want[permissions.Permission{Group: "apps", Resource: "deployments", Name: "old-controller", Verb: verb}] = true
		want[permissions.Permission{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings", Name: "old-binding", Verb: verb}] = true
	}
	assert.Empty(t, cmp.Diff(want, added), "permissions for retired objects (-want +got)")

	objects, err := d.RetiredObjects(namespace)
	require.NoError(t, err)
	var got []string
	for _, m := range objects {
		got = append(got, strings.Join([]string{m.Object.GetAPIVersion(), m.Object.GetKind(), m.Object.GetNamespace(), m.Object.GetName()}, " "))
	}
	wantObjects := []string{"apps/v1 Deployment harbour old-controller", "rbac.authorization.k8s.io/v1 ClusterRoleBinding  old-binding"}
	assert.Equal(t, wantObjects, got, "retired objects")
}

func TestRetiredObjectsThatMustStay(t *testing.T) {
	configMap := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	for name, tc := range map[string]struct {
		retired drivers.Retired
		want    string
	}{
		"unknown kind": {drivers.Retired{Kind: corev1.SchemeGroupVersion.WithKind("Rope"), Name: "long", Since: "1.1.0"}, "kind Rope is unknown"},
		"kept kind": {drivers.Retired{Kind: corev1.SchemeGroupVersion.WithKind("Secret"), Namespace: drivers.NamespacePlaceholder, Name: "key", Since: "1.1.0"},
			"kind Secret outlive the driver"},
		"a user's namespace": {drivers.Retired{Kind: configMap, Namespace: "shop", Name: "old", Since: "1.1.0"}, `found the namespace "shop"`},
		"no version":         {drivers.Retired{Kind: configMap, Namespace: drivers.NamespacePlaceholder, Name: "old"}, `missing since version ""`},
		"an asset": {drivers.Retired{Kind: configMap, Namespace: drivers.NamespacePlaceholder, Name: sample.Driver.TrustedCABundle, Since: "1.1.0"},
			"an asset of that kind and name"},
	} {
		t.Run(name, func(t *testing.T) {
			d := sample.Driver
			d.Retired = []drivers.Retired{tc.retired}
			_, err := d.RetiredObjects(namespace)
			assert.ErrorContains(t, err, tc.want, "RetiredObjects")
			_, err = d.OperatorRules(permissions.Removable)
			assert.ErrorContains(t, err, tc.want, "OperatorRules")
		})
	}
}
