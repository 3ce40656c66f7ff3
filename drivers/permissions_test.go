package drivers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

func rule(group, resource, name string, verbs ...string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	if name != "" {
		r.ResourceNames = []string{name}
	}
	return r
}

func TestRules(t *testing.T) {
	for name, test := range map[string]struct{ rules, want []rbacv1.PolicyRule }{
		"none": {},
		"verbs of one object make one rule, in order": {
			rules: []rbacv1.PolicyRule{rule("apps", "deployments", "crane", "patch", "delete"), rule("apps", "deployments", "crane", "use", "get", "approve")},
			want:  []rbacv1.PolicyRule{rule("apps", "deployments", "crane", "get", "patch", "delete", "approve", "use")},
		},
		"repeated": {
			rules: []rbacv1.PolicyRule{rule("", "pods", "", "get"), rule("", "pods", "", "get", "list")},
			want:  []rbacv1.PolicyRule{rule("", "pods", "", "get", "list")},
		},
		"allowed for any name": {
			rules: []rbacv1.PolicyRule{rule("", "secrets", "key", "get", "delete"), rule("", "secrets", "", "get")},
			want:  []rbacv1.PolicyRule{rule("", "secrets", "", "get"), rule("", "secrets", "key", "delete")},
		},
		"names with the same verbs": {
			rules: []rbacv1.PolicyRule{rule("", "secrets", "lock", "get"), rule("", "secrets", "key", "get"), rule("", "secrets", "door", "delete")},
			want: []rbacv1.PolicyRule{rule("", "secrets", "door", "delete"),
				{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"key", "lock"}, Verbs: []string{"get"}}},
		},
		"a name and any name with the same verbs of different resources": {
			rules: []rbacv1.PolicyRule{rule("", "pods", "", "get"), rule("", "secrets", "key", "get")},
			want:  []rbacv1.PolicyRule{rule("", "pods", "", "get"), rule("", "secrets", "key", "get")},
		},
		"resources with the same verbs": {
			rules: []rbacv1.PolicyRule{rule("", "secrets", "", "get", "list"), rule("", "configmaps", "", "list", "get"), rule("apps", "deployments", "", "get", "list")},
			want: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"get", "list"}},
				rule("apps", "deployments", "", "get", "list")},
		},
		"resources with the same name and verbs": {
			rules: []rbacv1.PolicyRule{rule("", "secrets", "key", "get"), rule("", "configmaps", "key", "get")},
			want:  []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, ResourceNames: []string{"key"}, Verbs: []string{"get"}}},
		},
		"groups stay apart": {
			rules: []rbacv1.PolicyRule{{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create"}}},
			want:  []rbacv1.PolicyRule{rule("", "events", "", "create"), rule("events.k8s.io", "events", "", "create")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := permissionsOf(test.rules)
			got := set.rules()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(set, permissionsOf(got)); diff != "" {
				t.Errorf("the rules do not allow just the same (-given +rules):\n%s", diff)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	all := permissionsOf([]rbacv1.PolicyRule{rule("", "secrets", "key", "get", "delete"), rule("", "pods", "", "get", "list")})
	others := permissionsOf([]rbacv1.PolicyRule{rule("", "secrets", "", "get"), rule("", "pods", "barge", "list"), rule("", "pods", "", "get")})
	want := []rbacv1.PolicyRule{rule("", "pods", "", "list"), rule("", "secrets", "key", "delete")}
	if diff := cmp.Diff(want, all.without(others).rules()); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}
