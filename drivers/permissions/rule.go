// Package permissions says what an operator may do in a cluster, what it needs each permission for, and
// what it has been seen to do.
//
// Least privilege is measured here and not guessed: what a rule allows has been used in an end-to-end
// run, or it says beside itself why no such run can use it.
package permissions

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
)

// A Rule is a rule of RBAC for an operator, and why the operator needs it.
type Rule struct {
	// For says what the operator needs it for, as a headline that several rules may share.
	For string
	// From is where the rule stands, for whoever has to change it.
	From string
	// Own limits it to the namespace that the operator runs in.
	Own bool
	// Group, Resources and Verbs are those of a rule of RBAC, and so are Names; none stand for any name.
	Group     string
	Resources []string
	Names     []string
	Verbs     []string
	// Delegated says that the operator uses none of it: it must have what it gives to others.
	Delegated bool
	// Unexercised says of a verb why no end-to-end run can use it.
	Unexercised map[string]string
}

// Follow are the verbs of who follows objects. ListedFirst is why one of them may not be seen in use: older
// API servers have objects listed before they are watched.
var (
	Follow      = []string{"list", "watch"}
	ListedFirst = map[string]string{"list": "needed only where a watch does not begin with what there is"}
)

// permissions returns what a rule allows, piece by piece.
func (r Rule) permissions() []Permission {
	names := r.Names
	if len(names) == 0 {
		names = []string{""}
	}
	var all []Permission
	for _, resource := range r.Resources {
		for _, name := range names {
			for _, verb := range r.Verbs {
				all = append(all, Permission{r.Own, r.Group, resource, name, verb})
			}
		}
	}
	return all
}

// SetOf returns what rules allow together.
func SetOf(rules []Rule) Set {
	set := Set{}
	for _, rule := range rules {
		for _, p := range rule.permissions() {
			set[p] = true
		}
	}
	return set
}

// PolicyRules returns as few rules of RBAC as allow just the same: in the operator's own namespace, and
// everywhere. What the latter allow is left out of the former.
func PolicyRules(rules []Rule) (own, everywhere []rbacv1.PolicyRule) {
	set := SetOf(rules).smallest()
	return set.rules(true), set.rules(false)
}

// Delegate returns the rules that it takes to give somebody the rules of a role. It fails if one is about
// URLs, which no driver needs.
func Delegate(reason, from string, role []rbacv1.PolicyRule) ([]Rule, error) {
	var rules []Rule
	for _, of := range role {
		if len(of.NonResourceURLs) > 0 {
			return nil, fmt.Errorf("%s: a rule is about the URLs %q, want rules about resources only", from, of.NonResourceURLs)
		}
		for _, group := range of.APIGroups {
			rules = append(rules, Rule{For: reason, From: from, Delegated: true,
				Group: group, Resources: of.Resources, Names: of.ResourceNames, Verbs: of.Verbs})
		}
	}
	return rules, nil
}
