package cluster

import (
	"github.com/operator-framework/api/pkg/operators"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// olmRoles returns the cluster roles by which OLM extends edit and view to its own objects, so that the admin of a
// namespace may write Subscriptions. A test compares their rules with OLM's own deployment.
func olmRoles() []*rbacv1.ClusterRole {
	aggregated := func(name string, to []string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		labels := map[string]string{}
		for _, role := range to {
			labels["rbac.authorization.k8s.io/aggregate-to-"+role] = "true"
		}
		return &rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Rules:      rules,
		}
	}
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	return []*rbacv1.ClusterRole{
		aggregated("aggregate-olm-edit", []string{"admin", "edit"},
			rule(operators.GroupName, []string{"subscriptions"}, "create", "update", "patch", "delete"),
			rule(operators.GroupName, []string{"clusterserviceversions", "catalogsources", "installplans", "subscriptions"}, "delete")),
		aggregated("aggregate-olm-view", []string{"admin", "edit", "view"},
			rule(operators.GroupName, []string{"clusterserviceversions", "catalogsources", "installplans", "subscriptions", "operatorgroups"},
				"get", "list", "watch"),
			rule("packages.operators.coreos.com", []string{"packagemanifests", "packagemanifests/icon"}, "get", "list", "watch")),
	}
}
