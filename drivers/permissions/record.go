package permissions

import (
	"fmt"
	"maps"
	"slices"
)

// RecordName is the file in a driver's folder that holds the text of the set that Exercise returned for an
// end-to-end run.
const RecordName = "exercised.txt"

// Exercise returns which of the permissions that rules give were used by requests, each of which is
// described by what it needs, the name of its object included. Of several permissions that allow a request
// the narrowest counts. What an operator has only in order to delegate it counts for nothing: requests that
// nothing else allows are returned as well.
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
	return used, slices.SortedFunc(maps.Keys(missing), Permission.compare)
}

// Check compares rules with the record of what an end-to-end run has used of them. It returns a sentence
// for each that does not fit: a permission that was not used and does not say why, one that was used and
// says why not, and a use of what is not allowed.
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
					"an end-to-end run has used %q (%s), but %s says %q: take that reason away", p, rule.For, rule.From, reason))
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
