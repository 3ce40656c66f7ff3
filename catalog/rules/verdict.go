package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/findings"
)

// verdicts says which consequences errors have for packages, by version of OLM. Errors of all other rules keep opm from serving the
// catalog.
var verdicts = []struct {
	rules []string
	// one and several are the predicate of a sentence about one package, and about several.
	one, several string
}{
	{[]string{"channel-path"}, "strands clusters of OLM v0", "strand clusters of OLM v0"},
	{[]string{"bundle-dependency"}, "has dependencies that OLM v0 cannot read, so it resolves nothing with it", "have dependencies that OLM v0 cannot read, so it resolves nothing with them"},
	{[]string{"bundle-csv"}, "has bundles that OLM v0 cannot decode, so it resolves nothing with them", "have bundles that OLM v0 cannot decode, so it resolves nothing with them"},
	{[]string{"channel-head", "channel-cycle"}, "has channels from which OLM v0 resolves nothing, and which opm rejects", "have channels from which OLM v0 resolves nothing, and which opm rejects"},
	{[]string{againstPackage.ID, againstChannel.ID, againstEntry.ID}, "strands clusters that installed from the earlier catalog", "strand clusters that installed from the earlier catalog"},
	{[]string{"olm-v1-bundle", "olm-v1-update"}, "has bundles or updates that OLM v1 refuses", "have bundles or updates that OLM v1 refuses"},
	{[]string{"olm-v1-against"}, "gives clusters of OLM v1 less than the earlier catalog", "give clusters of OLM v1 less than the earlier catalog"},
}

// Verdict states the consequences of the errors among findings, a sentence for each. profiles are the names of the profiles by which the
// catalog was checked.
func Verdict(found []*findings.Finding, profiles []string) (sentences []string) {
	known := map[string]bool{}
	for _, v := range verdicts {
		names := packagesWith(found, func(f *findings.Finding) bool { return slices.Contains(v.rules, f.Rule) })
		for _, rule := range v.rules {
			known[rule] = true
		}
		if len(names) > 0 {
			sentences = append(sentences, about(names, v.one, v.several))
		}
	}
	rejected := func(f *findings.Finding) bool {
		return !known[f.Rule] && slices.ContainsFunc(Rules, func(r findings.Rule) bool { return r.ID == f.Rule && r.Severity == findings.Error })
	}
	if names := packagesWith(found, rejected); len(names) > 0 {
		sentences = append(sentences, about(names, "has faults for which opm rejects it", "have faults for which opm rejects them"))
	}
	unread := 0
	for _, f := range found {
		if f.Severity == findings.Error && f.Package == "" {
			unread++
		}
	}
	switch {
	case unread == 1:
		sentences = append(sentences, "opm rejects 1 document")
	case unread > 1:
		sentences = append(sentences, fmt.Sprintf("opm rejects documents for %d faults", unread))
	}
	raised := packagesWith(found, func(f *findings.Finding) bool { return !known[f.Rule] && !rejected(f) })
	by := "--severity makes errors"
	if len(profiles) > 0 {
		by = strings.Join(profiles, ", ") + " refuses"
	}
	if len(raised) > 0 {
		sentences = append(sentences, about(raised, "has faults that "+by, "have faults that "+by))
	}
	return sentences
}

// packagesWith returns the names of packages with errors of some kind.
func packagesWith(found []*findings.Finding, of func(*findings.Finding) bool) (names []string) {
	for _, f := range found {
		if f.Severity == findings.Error && f.Package != "" && of(f) {
			names = append(names, f.Package)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// namedLimit is the maximum number of packages that a sentence names.
const namedLimit = 5

func about(names []string, one, several string) string {
	if len(names) == 1 {
		return "1 package " + one + ": " + names[0]
	}
	text := fmt.Sprintf("%d packages %s: %s", len(names), several, strings.Join(names[:min(len(names), namedLimit)], ", "))
	if more := len(names) - namedLimit; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
