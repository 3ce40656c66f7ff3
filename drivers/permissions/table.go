package permissions

import (
	"cmp"
	"slices"
	"strings"
)

// A Row describes permissions with the same purpose. Either a run used all of them, or all are unused for the same
// reason.
type Row struct {
	For string
	// Where is "cluster", or "namespace" for the operator's own namespace.
	Where string
	// Object names the resources, and their objects if the permission is limited to some.
	Object string
	Verbs  string
	// Unexercised is the reason why no end-to-end run used them; "" if one did.
	Unexercised string
	Delegated   bool
}

// Table returns rules as rows, grouped by purpose in order of first appearance. In each group, used permissions come
// first.
func Table(rules []Rule) []Row {
	type class struct {
		purpose, reason string
		delegated       bool
	}
	var order []class
	sets := map[class]Set{}
	for _, rule := range rules {
		for _, p := range rule.permissions() {
			c := class{rule.For, rule.Unexercised[p.Verb], rule.Delegated}
			if sets[c] == nil {
				sets[c] = Set{}
				order = append(order, c)
			}
			sets[c][p] = true
		}
	}
	purposes := map[string]int{}
	for _, c := range order {
		if _, seen := purposes[c.purpose]; !seen {
			purposes[c.purpose] = len(purposes)
		}
	}
	slices.SortStableFunc(order, func(a, b class) int {
		return cmp.Or(purposes[a.purpose]-purposes[b.purpose], cmp.Compare(a.reason, b.reason))
	})
	var rows []Row
	for _, c := range order {
		for _, where := range []string{ownScope, clusterScope} {
			for _, r := range sets[c].minimal().rules(where == ownScope) {
				rows = append(rows, Row{c.purpose, where, object(r), strings.Join(r.Verbs, " "), c.reason, c.delegated})
			}
		}
	}
	return rows
}
