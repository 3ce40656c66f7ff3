package permissions

// Count says how much grants come to, so that it can be compared from version to version.
type Count struct {
	// Rules is the number of rules of RBAC.
	Rules int
	// Wide is the number of verbs on resources of any name in all namespaces, and WideToUse how many of them
	// the operator uses itself; the others it has only to give them.
	Wide, WideToUse int
}

// Counted counts what grants come to.
func Counted(grants []Grant) Count {
	own, everywhere := Rules(grants)
	used := Set{}
	for _, grant := range grants {
		if grant.ToGrant {
			continue
		}
		for _, p := range grant.permissions() {
			used[p] = true
		}
	}
	count := Count{Rules: len(own) + len(everywhere)}
	for p := range SetOf(grants).smallest() {
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
