// Package permissions says what an operator may do in a cluster, what it needs each permission for, and
// what it has been seen to do.
//
// Least privilege is measured here and not guessed: what a grant allows has been used in an end-to-end
// run, or it says beside itself why no such run can use it.
package permissions

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
)

// A Grant allows something to an operator.
type Grant struct {
	// For says what the operator needs it for, as a headline that several grants may share.
	For string
	// From is where the grant stands, for whoever has to change it.
	From string
	// Own limits it to the namespace that the operator runs in.
	Own bool
	// Group, Resources and Verbs are those of a rule of RBAC, and so are Names; none stand for any name.
	Group     string
	Resources []string
	Names     []string
	Verbs     []string
	// ToGrant says that the operator uses none of it: it must have what it gives to others.
	ToGrant bool
	// Unexercised says of a verb why no end-to-end run can use it.
	Unexercised map[string]string
}

// Follow are the verbs of who follows objects. ListedFirst is why one of them may not be seen in use: older
// API servers have objects listed before they are watched.
var (
	Follow      = []string{"list", "watch"}
	ListedFirst = map[string]string{"list": "needed only where a watch does not begin with what there is"}
)

// permissions returns what a grant allows, piece by piece.
func (g Grant) permissions() []Permission {
	names := g.Names
	if len(names) == 0 {
		names = []string{""}
	}
	var all []Permission
	for _, resource := range g.Resources {
		for _, name := range names {
			for _, verb := range g.Verbs {
				all = append(all, Permission{g.Own, g.Group, resource, name, verb})
			}
		}
	}
	return all
}

// SetOf returns what grants allow together.
func SetOf(grants []Grant) Set {
	set := Set{}
	for _, grant := range grants {
		for _, p := range grant.permissions() {
			set[p] = true
		}
	}
	return set
}

// Rules returns few rules of RBAC that allow just what the grants do: in the operator's own namespace, and
// everywhere. What the latter allow is left out of the former.
func Rules(grants []Grant) (own, everywhere []rbacv1.PolicyRule) {
	set := SetOf(grants).smallest()
	return set.rules(true), set.rules(false)
}

// ToGrant returns the grants that it takes to give somebody the rules of a role. It fails if one is about
// URLs, which no driver needs.
func ToGrant(reason, from string, rules []rbacv1.PolicyRule) ([]Grant, error) {
	var grants []Grant
	for _, rule := range rules {
		if len(rule.NonResourceURLs) > 0 {
			return nil, fmt.Errorf("%s: a rule is about the URLs %q, want rules about resources only", from, rule.NonResourceURLs)
		}
		for _, group := range rule.APIGroups {
			grants = append(grants, Grant{For: reason, From: from, ToGrant: true,
				Group: group, Resources: rule.Resources, Names: rule.ResourceNames, Verbs: rule.Verbs})
		}
	}
	return grants, nil
}
