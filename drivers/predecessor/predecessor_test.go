package predecessor

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
)

// TestFind: an operator counts if a ClusterRoleBinding of OLM gives its service account permissions, and else it does not.
func TestFind(t *testing.T) {
	d := drivers.Driver{
		Operator: drivers.Operator{Name: "boat-operator"}, ClusterStorage: &drivers.ClusterStorage{},
		History: drivers.History{Predecessors: []drivers.Predecessor{{Operator: "old-boat-operator"}, {Operator: "boat-operator"}}},
	}
	v0 := map[string]string{"olm.owner.kind": "ClusterServiceVersion", "olm.owner": "boat.v1"}
	v1 := map[string]string{"olm.operatorframework.io/owner-kind": "ClusterExtension", "olm.operatorframework.io/owner-name": "boat"}
	binding := func(name string, labels map[string]string, kind, namespace, account string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Subjects: []rbacv1.Subject{{Kind: kind, Namespace: namespace, Name: account}}}
	}
	const serviceAccount = rbacv1.ServiceAccountKind
	found := Operator{Namespace: "harbour", Account: "old-boat-operator", Kind: Version, Name: "boat.v1", Binding: "b"}
	extension := found
	extension.Kind, extension.Name = Extension, "boat"
	for name, tc := range map[string]struct {
		bindings []*rbacv1.ClusterRoleBinding
		groups   map[string]bool
		want     []Operator
	}{
		"of OLM v0":              {[]*rbacv1.ClusterRoleBinding{binding("b", v0, serviceAccount, "harbour", "old-boat-operator")}, nil, []Operator{found}},
		"of OLM v1":              {[]*rbacv1.ClusterRoleBinding{binding("b", v1, serviceAccount, "harbour", "old-boat-operator")}, nil, []Operator{extension}},
		"several of one":         {[]*rbacv1.ClusterRoleBinding{binding("c", v0, serviceAccount, "harbour", "old-boat-operator"), binding("b", v0, serviceAccount, "harbour", "old-boat-operator")}, nil, []Operator{found}},
		"of somebody else":       {[]*rbacv1.ClusterRoleBinding{binding("b", nil, serviceAccount, "harbour", "old-boat-operator")}, nil, nil},
		"of another account":     {[]*rbacv1.ClusterRoleBinding{binding("b", v0, serviceAccount, "harbour", "raft-operator")}, nil, nil},
		"of a user of that name": {[]*rbacv1.ClusterRoleBinding{binding("b", v0, rbacv1.UserKind, "", "old-boat-operator")}, nil, nil},
		"none":                   {nil, nil, nil},
		"where an OperatorGroup is for all namespaces": {
			[]*rbacv1.ClusterRoleBinding{binding("b", v0, serviceAccount, "harbour", "old-boat-operator")}, map[string]bool{"harbour": true, "quay": false}, []Operator{found}},
		"where none is": {[]*rbacv1.ClusterRoleBinding{binding("b", v0, serviceAccount, "harbour", "old-boat-operator")}, map[string]bool{"harbour": false}, nil},
		"of OLM v1, where none is": {
			[]*rbacv1.ClusterRoleBinding{binding("b", v1, serviceAccount, "harbour", "old-boat-operator")}, map[string]bool{"harbour": false}, []Operator{extension}},
	} {
		assert.Emptyf(t, cmp.Diff(tc.want, find(d, tc.bindings, tc.groups)), "%s (-want +got)", name)
	}
	both := []*rbacv1.ClusterRoleBinding{binding("b", v0, serviceAccount, "quay", "boat-operator"), binding("c", v0, serviceAccount, "harbour", "boat-operator")}
	var namespaces []string
	for _, o := range find(d, both, nil) {
		namespaces = append(namespaces, o.Namespace)
	}
	assert.Equal(t, []string{"harbour", "quay"}, namespaces, "both namespaces, sorted")
	if Succeeded(d, both) || !Succeeded(d, append(both, binding(d.SuccessorBinding(), nil, serviceAccount, drivers.ClusterStorageNamespace, "boat-operator"))) {
		t.Error("the cluster storage operator's own binding shows that it has started the operator, and no other does")
	}
	d.ClusterStorage = nil
	assert.Empty(t, find(d, both, nil), "operators of a driver that no cluster storage operator runs")
}

// TestIsForAll: an OperatorGroup is for all namespaces if it names and selects none.
func TestIsForAll(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true, `{"spec":{}}`: true, `{"spec":{"targetNamespaces":[],"selector":{}}}`: true, `{"spec":{"selector":{"matchLabels":{}}}}`: true,
		`{"spec":{"targetNamespaces":["quay"]}}`:                                       false,
		`{"spec":{"selector":{"matchLabels":{"a":"b"}}}}`:                              false,
		`{"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Exists"}]}}}`: false,
	} {
		group := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal([]byte(text), &group.Object))
		assert.Equal(t, want, isForAll(group), text)
	}
}
