package permissions

import (
	"fmt"
	"maps"
	"slices"
)

// RecordName is the file in a driver's folder with the set that Exercise returned for an end-to-end run, as text.
const RecordName = "exercised.txt"

// Exercise returns which permissions of the rules the requests used. A request is the permission that it needs,
// including the name of its object. If several permissions allow a request, the narrowest counts as used. Permissions
// that an operator has only to delegate them never count, nor do permissions that a run uses by chance. unforeseen are
// the requests that no rule allows, or only a delegated one.
func Exercise(rules []Rule, requests []Permission) (used Set, unforeseen []Permission) {
	allowed := SetOf(slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.Delegated }))
	used = Set{}
	missing := Set{}
	for _, request := range requests {
		candidates := request.widened()
		i := slices.IndexFunc(candidates, func(p Permission) bool { return allowed[p] })
		if i < 0 {
			missing[request] = true
			continue
		}
		used[candidates[i]] = true
	}
	for _, rule := range rules {
		for _, p := range rule.permissions() {
			if rule.Incidental && rule.Unexercised[p.Verb] != "" {
				delete(used, p)
			}
		}
	}
	return used, slices.SortedFunc(maps.Keys(missing), Permission.compare)
}

// Check compares rules with the recorded permissions that an end-to-end run used. It returns a sentence for each
// mismatch: an unused permission without a reason, a used permission with a reason, and a use without permission.
func Check(rules []Rule, used Set) []string {
	var problems []string
	rest := maps.Clone(used)
	for _, rule := range rules {
		for _, p := range rule.permissions() {
			if rule.Delegated {
				continue
			}
			delete(rest, p)
			switch reason := rule.Unexercised[p.Verb]; {
			case !used[p] && reason == "":
				problems = append(problems, fmt.Sprintf(
					"no end-to-end run has used %q (%s): take it out of %s, or say there in Unexercised why no run can use it", p, rule.For, rule.From))
			case used[p] && reason != "":
				problems = append(problems, fmt.Sprintf(
					"an end-to-end run has used %q (%s), but %s says %q: remove that reason", p, rule.For, rule.From, reason))
			}
		}
		for verb := range rule.Unexercised {
			if !slices.Contains(rule.Verbs, verb) {
				problems = append(problems, fmt.Sprintf("%s gives a reason for the verb %s, which it does not have (%s)", rule.From, verb, rule.For))
			}
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(rest), Permission.compare) {
		problems = append(problems, fmt.Sprintf("an end-to-end run has used %q, which is not allowed: add a rule for it, or record a new run", p))
	}
	return problems
}
