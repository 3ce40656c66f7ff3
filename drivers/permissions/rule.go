// Package permissions describes what an operator may do in a cluster, why it needs each permission, and which
// permissions it was seen to use.
//
// Least privilege is measured, not guessed: an end-to-end run has used each permission, or its rule gives the reason
// why no such run can.
package permissions

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// A Rule is an RBAC rule for an operator, with its purpose.
type Rule struct {
	// For is the purpose, as a headline. Several rules may share it.
	For string
	// From is the file that defines the rule.
	From string
	// Only limits the rule to some of the operators of a driver; "" is for all of them.
	Only Operators
	// Own limits the rule to the operator's own namespace.
	Own bool
	// Group, Resources, Names and Verbs are as in an RBAC rule. No names means any name.
	Group     string
	Resources []string
	Names     []string
	Verbs     []string
	// Delegated says that the operator does not use the rule itself, but must have it to grant it to others.
	Delegated bool
	// Unexercised gives, by verb, the reason why end-to-end runs cannot or need not use it.
	Unexercised map[string]string
	// Incidental says that a run may use an Unexercised permission by chance, depending on timing.
	Incidental bool
}

// Operators are operators of one driver with the same abilities.
type Operators string

const (
	// Removable says that the operator removes its driver on request, as it does when OLM runs it.
	Removable Operators = "removable"
	// Permanent says that the driver belongs to the platform and stays: the cluster storage operator runs its operator.
	Permanent Operators = "permanent"
)

// ListWatch are the verbs of informers. ListFallback is the reason why no run uses list: an informer lists only if the API server is too
// old to begin a watch with the existing objects.
var (
	ListWatch    = []string{"list", "watch"}
	ListFallback = map[string]string{"list": "needed only if the API server is too old to begin a watch with the existing objects"}
)

// RulesOf returns the rules that apply to the given operators.
func RulesOf(rules []Rule, operators Operators) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.Only != "" && r.Only != operators })
}

// permissions splits a rule into single permissions.
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

// SetOf returns everything that rules allow.
func SetOf(rules []Rule) Set {
	set := Set{}
	for _, rule := range rules {
		for _, p := range rule.permissions() {
			set[p] = true
		}
	}
	return set
}

// PolicyRules returns a short list of RBAC rules that allow exactly the same, for the operator's own namespace and for
// the whole cluster. The rules for the namespace do not repeat those for the cluster.
func PolicyRules(rules []Rule) (own, everywhere []rbacv1.PolicyRule) {
	set := SetOf(rules).minimal()
	return set.rules(true), set.rules(false)
}

// Delegate returns the rules that the operator needs in order to bind a role. It fails for rules about non-resource
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
