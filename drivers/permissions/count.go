package permissions

// Count says how much rules come to, so that it can be compared from version to version.
type Count struct {
	// Rules is the number of rules of RBAC.
	Rules int
	// Wide is the number of verbs on resources of any name in all namespaces, and WideToUse how many of them
	// the operator uses itself; the others it has only to give them.
	Wide, WideToUse int
}

// Counted counts what rules come to.
func Counted(rules []Rule) Count {
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
	for p := range SetOf(rules).smallest() {
		if p.Own || p.Name != "" {
			continue
		}
		count.Wide++
		if used[p] {
			count.WideToUse++
		}
	}
	return count
}
