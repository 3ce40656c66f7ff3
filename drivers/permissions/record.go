package permissions

import (
	"fmt"
	"maps"
	"slices"
)

// RecordName is the file in a driver's folder that holds the text of the set that Exercise returned for an
// end-to-end run.
const RecordName = "exercised.txt"

// Exercise returns which of the permissions that grants give were used by requests, each of which is
// described by what it needs, the name of its object included. Of several permissions that allow a request
// the narrowest counts. What an operator has only in order to grant it counts for nothing: requests that
// nothing else allows are returned as well.
func Exercise(grants []Grant, requests []Permission) (used Set, unforeseen []Permission) {
	granted := SetOf(slices.DeleteFunc(slices.Clone(grants), func(g Grant) bool { return g.ToGrant }))
	used = Set{}
	missing := Set{}
	for _, request := range requests {
		candidates := request.widened()
		i := slices.IndexFunc(candidates, func(p Permission) bool { return granted[p] })
		if i < 0 {
			missing[request] = true
			continue
		}
		used[candidates[i]] = true
	}
	return used, slices.SortedFunc(maps.Keys(missing), Permission.compare)
}

// Check compares grants with the record of what an end-to-end run has used of them. It returns a sentence
// for each that does not fit: a permission that was not used and does not say why, one that was used and
// says why not, and a use of what is not granted.
func Check(grants []Grant, used Set) []string {
	var problems []string
	rest := maps.Clone(used)
	for _, grant := range grants {
		for _, p := range grant.permissions() {
			if grant.ToGrant {
				continue
			}
			delete(rest, p)
			switch reason := grant.Unexercised[p.Verb]; {
			case !used[p] && reason == "":
				problems = append(problems, fmt.Sprintf(
					"no end-to-end run has used %q (%s): take it out of %s, or say there in Unexercised why no run can use it", p, grant.For, grant.From))
			case used[p] && reason != "":
				problems = append(problems, fmt.Sprintf(
					"an end-to-end run has used %q (%s), but %s says %q: take that reason away", p, grant.For, grant.From, reason))
			}
		}
		for verb := range grant.Unexercised {
			if !slices.Contains(grant.Verbs, verb) {
				problems = append(problems, fmt.Sprintf("%s gives a reason for the verb %s, which it does not grant (%s)", grant.From, verb, grant.For))
			}
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(rest), Permission.compare) {
		problems = append(problems, fmt.Sprintf("an end-to-end run has used %q, which is not granted: grant it, or record a new run", p))
	}
	return problems
}
