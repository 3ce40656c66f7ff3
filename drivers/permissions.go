package drivers

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// permission allows one verb on one resource. An empty name stands for objects of any name.
type permission struct{ group, resource, name, verb string }

// permissions is a set of them: the form in which rules can be compared. Rules about URLs that are no
// resources have no place in it, as no operator and no driver needs any.
type permissions map[permission]bool

func permissionsOf(rules []rbacv1.PolicyRule) permissions {
	set := permissions{}
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						set[permission{group, resource, name, verb}] = true
					}
				}
			}
		}
	}
	// What is allowed for any name needs no further word for a single one.
	maps.DeleteFunc(set, func(p permission, _ bool) bool { return p.name != "" && set[p.forAnyName()] })
	return set
}

func (p permission) forAnyName() permission {
	p.name = ""
	return p
}

// without returns those permissions that others do not allow.
func (s permissions) without(others permissions) permissions {
	rest := maps.Clone(s)
	maps.DeleteFunc(rest, func(p permission, _ bool) bool { return others[p] || others[p.forAnyName()] })
	return rest
}

// rules returns few rules that allow just the same, always in the same order.
func (s permissions) rules() []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, p := range slices.SortedFunc(maps.Keys(s), permission.compare) {
		rule := rbacv1.PolicyRule{APIGroups: []string{p.group}, Resources: []string{p.resource}, Verbs: []string{p.verb}}
		if p.name != "" {
			rule.ResourceNames = []string{p.name}
		}
		rules = append(rules, rule)
	}
	rules = merge(rules, func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs })
	rules = merge(rules, func(r *rbacv1.PolicyRule) *[]string { return &r.ResourceNames })
	rules = merge(rules, func(r *rbacv1.PolicyRule) *[]string { return &r.Resources })
	return rules
}

func (p permission) compare(q permission) int {
	return cmp.Or(cmp.Compare(p.group, q.group), cmp.Compare(p.resource, q.resource), cmp.Compare(p.name, q.name),
		cmp.Compare(verbRank(p.verb), verbRank(q.verb)), cmp.Compare(p.verb, q.verb))
}

// verbRank puts verbs in the order in which people are used to read them.
func verbRank(verb string) int {
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	if i := slices.Index(verbs, verb); i >= 0 {
		return i
	}
	return len(verbs)
}

// merge joins those rules that differ in nothing but one list. A rule without names, which allows all,
// never meets one with names here: in a set, the two have no verb in common.
func merge(rules []rbacv1.PolicyRule, list func(*rbacv1.PolicyRule) *[]string) []rbacv1.PolicyRule {
	var merged []rbacv1.PolicyRule
	for _, rule := range rules {
		i := slices.IndexFunc(merged, func(other rbacv1.PolicyRule) bool { return equalBut(list, other, rule) })
		if i < 0 {
			merged = append(merged, rule)
			continue
		}
		*list(&merged[i]) = append(*list(&merged[i]), *list(&rule)...)
	}
	return merged
}

func equalBut(list func(*rbacv1.PolicyRule) *[]string, a, b rbacv1.PolicyRule) bool {
	*list(&a), *list(&b) = nil, nil
	return reflect.DeepEqual(a, b)
}
