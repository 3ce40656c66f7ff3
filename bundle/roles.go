package bundle

import (
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	viewVerbs  = []string{"get", "list", "watch"}
	editVerbs  = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	adminVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
)

// teamRoles returns roles that aggregate an API to view, edit and admin, so that a team has the permissions of its role in
// its namespace. Only the operator may write status.
//
// OLM creates similar roles named <definition>-<version>-<role> while the operator is installed. The roles here have other names, so that
// neither overwrites the other, and no owner, so that teams keep their permissions, like their objects, when the operator is removed.
func teamRoles(crd *apiextensionsv1.CustomResourceDefinition) []*rbacv1.ClusterRole {
	if crd.Spec.Scope != apiextensionsv1.NamespaceScoped {
		return nil
	}
	role := func(name string, verbs []string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{
			TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{
				Name:   crd.Name + "-" + name,
				Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + name: "true"},
			},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{crd.Spec.Group}, Resources: []string{crd.Spec.Names.Plural}, Verbs: verbs},
			},
		}
	}
	return []*rbacv1.ClusterRole{role("view", viewVerbs), role("edit", editVerbs), role("admin", adminVerbs)}
}
