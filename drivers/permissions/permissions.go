package permissions

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Permission allows one verb on one resource. It also describes the permission that one request needs.
type Permission struct {
	// Own limits it to the operator's own namespace.
	Own bool
	// Group and Resource name the resource, including a subresource, as in "pods/status".
	Group, Resource string
	// Name is the name of the object; "" means any name.
	Name string
	Verb string
}

func (p Permission) String() string {
	return strings.TrimSuffix(Set{p: true}.String(), "\n")
}

// Set is a set of permissions. Rules are compared in this form. It has no place for non-resource URLs, because no
// operator and no driver needs any.
type Set map[Permission]bool

// widened returns the permissions that each include p, from narrow to wide, starting with p itself.
func (p Permission) widened() []Permission {
	anyName, everywhere, both := p, p, p
	anyName.Name = ""
	everywhere.Own = false
	both.Name, both.Own = "", false
	return []Permission{p, everywhere, anyName, both}
}

// minimal returns the set without the permissions that other permissions in the set include.
func (s Set) minimal() Set {
	rest := maps.Clone(s)
	maps.DeleteFunc(rest, func(p Permission, _ bool) bool {
		return slices.ContainsFunc(p.widened(), func(wider Permission) bool { return wider != p && s[wider] })
	})
	return rest
}

// rules returns a short list of rules, in a stable order, that allow exactly a part of the set: the permissions in the operator's own
// namespace if own is true, and otherwise the permissions in the cluster.
func (s Set) rules(own bool) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, p := range slices.SortedFunc(maps.Keys(s), Permission.compare) {
		if p.Own != own {
			continue
		}
		rule := rbacv1.PolicyRule{APIGroups: []string{p.Group}, Resources: []string{p.Resource}, Verbs: []string{p.Verb}}
		if p.Name != "" {
			rule.ResourceNames = []string{p.Name}
		}
		rules = append(rules, rule)
	}
	rules = merge(rules, func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs })
	rules = merge(rules, func(r *rbacv1.PolicyRule) *[]string { return &r.ResourceNames })
	rules = merge(rules, func(r *rbacv1.PolicyRule) *[]string { return &r.Resources })
	return rules
}

func (p Permission) compare(q Permission) int {
	return cmp.Or(cmp.Compare(p.Group, q.Group), cmp.Compare(p.Resource, q.Resource), cmp.Compare(p.Name, q.Name),
		cmp.Compare(verbRank(p.Verb), verbRank(q.Verb)), cmp.Compare(p.Verb, q.Verb))
}

// verbRank returns the position of a verb in the customary order.
func verbRank(verb string) int {
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	if i := slices.Index(verbs, verb); i >= 0 {
		return i
	}
	return len(verbs)
}

// merge joins rules that differ in one list only. It never joins a rule without names, which allows any name, with a rule with names: in
// a minimal set they have no verb in common.
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

// The first word of each line of a set's text.
const (
	ownScope     = "namespace" // the operator's own
	clusterScope = "cluster"
)

// String returns a line for each rule of the shortest list that allows exactly this set, such as "cluster
// apps/daemonsets named efs-csi-node: get update".
func (s Set) String() string {
	var text strings.Builder
	for _, scope := range []string{ownScope, clusterScope} {
		for _, r := range s.rules(scope == ownScope) {
			fmt.Fprintf(&text, "%s  %s: %s\n", scope, object(r), strings.Join(r.Verbs, " "))
		}
	}
	return text.String()
}

// object returns the objects of a rule with one API group, such as "core/secrets named key,lock".
func object(r rbacv1.PolicyRule) string {
	text := cmp.Or(r.APIGroups[0], "core") + "/" + strings.Join(r.Resources, ",")
	if len(r.ResourceNames) > 0 {
		text += " named " + strings.Join(r.ResourceNames, ",")
	}
	return text
}

// Parse reads the output of Set.String. It skips empty lines and lines that begin with #.
func Parse(text string) (Set, error) {
	set := Set{}
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ':' })
		if len(fields) > 3 && fields[2] == "named" {
			fields = append([]string{fields[0], fields[1] + " " + fields[3]}, fields[4:]...)
		}
		scopes := []string{ownScope, clusterScope}
		if len(fields) < 3 || !slices.Contains(scopes, fields[0]) || !strings.Contains(fields[1], "/") {
			return nil, fmt.Errorf("line %d is %q, want for example \"cluster  apps/daemonsets named node: get update\"", i+1, line)
		}
		resource, names, _ := strings.Cut(fields[1], " ")
		group, resources, _ := strings.Cut(resource, "/")
		for _, resource := range strings.Split(resources, ",") {
			for _, name := range strings.Split(names, ",") {
				for _, verb := range fields[2:] {
					set[Permission{fields[0] == ownScope, strings.TrimPrefix(group, "core"), resource, name, verb}] = true
				}
			}
		}
	}
	return set, nil
}
