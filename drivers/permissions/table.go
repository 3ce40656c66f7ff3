package permissions

import (
	"cmp"
	"slices"
	"strings"
)

// A Row tells of some permissions that have the same purpose and the same fate.
type Row struct {
	For string
	// Where is "cluster", or "namespace" for the operator's own.
	Where string
	// Object names the resources and, if the permission is limited to some, their objects.
	Object string
	Verbs  string
	// Unexercised says why no end-to-end run has used them; empty if one has.
	Unexercised string
	Delegated   bool
}

// Table explains rules: those with the same purpose together, in the order in which the purposes come,
// and what has been exercised first.
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
			for _, r := range sets[c].smallest().rules(where == ownScope) {
				rows = append(rows, Row{c.purpose, where, object(r), strings.Join(r.Verbs, " "), c.reason, c.delegated})
			}
		}
	}
	return rows
}
