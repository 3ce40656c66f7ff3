package permissions

// Count sums up rules, so that versions can be compared.
type Count struct {
	// Rules is the number of RBAC rules.
	Rules int
	// Wide is the number of verbs on resources of any name in all namespaces. WideUsed is how many of them the operator
	// uses itself. It needs the others only to delegate them.
	Wide, WideUsed int
}

// CountOf sums up rules.
func CountOf(rules []Rule) Count {
	own, everywhere := PolicyRules(rules)
	used := Set{}
	for _, rule := range rules {
		if rule.Delegated {
			continue
		}
		for _, p := range rule.permissions() {
			used[p] = true
		}
	}
	count := Count{Rules: len(own) + len(everywhere)}
	for p := range SetOf(rules).minimal() {
		if p.Own || p.Name != "" {
			continue
		}
		count.Wide++
		if used[p] {
			count.WideUsed++
		}
	}
	return count
}
