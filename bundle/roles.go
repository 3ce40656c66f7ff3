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

// teamRoles are the roles by which a team that has view, edit or admin in its namespace has the same
// of an API there. Nobody but the operator may write a status.
//
// OLM makes similar roles while the operator is installed, called <definition>-<version>-<role>; names
// of our own keep the two from overwriting each other. And OLM knows no owner of these: teams keep
// their rights, as they keep their objects, when the operator is removed.
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
