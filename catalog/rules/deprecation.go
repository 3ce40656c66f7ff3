package rules

import (
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/internal/findings"
)

// deprecationRules are the rules about deprecations.
var deprecationRules = []rule{
	{Rule: findings.Rule{ID: "deprecation-reference", Severity: findings.Error,
		What: "A deprecation refers to its package, or to a channel or bundle of that package.",
		Why:  "OLM's tools reject the catalog."},
		complete: true, check: checkReferences},
	{Rule: findings.Rule{ID: "deprecation-unique", Severity: findings.Error,
		What: "Nothing is deprecated twice.",
		Why:  "OLM's tools reject the catalog."},
		check: checkUniqueReferences},
	{Rule: findings.Rule{ID: "deprecation-message", Severity: findings.Error,
		What: "A deprecation has a message.",
		Why:  "OLM's tools reject the catalog."},
		check: checkMessages},
}

func checkReferences(s *subject, report report) {
	for _, d := range s.Deprecations {
		for i, e := range d.Entries {
			at, name := []any{"entries", i, "reference"}, e.Reference.Name
			switch schema := e.Reference.Schema; {
			case schema == declcfg.SchemaPackage && name != "":
				report(d.Span, at, "the deprecation of package %q names %q; expected no name, because it can only refer to this package", s.Name, name)
			case schema == declcfg.SchemaChannel && s.FindChannel(name) == nil:
				report(d.Span, at, "channel %q is deprecated, but package %q has no such channel; its channels are %s", name, s.Name, s.channelNames())
			case schema == declcfg.SchemaBundle && s.FindBundle(name) == nil:
				report(d.Span, at, "bundle %q is deprecated, but package %q has no such bundle", name, s.Name)
			case schema != declcfg.SchemaPackage && schema != declcfg.SchemaChannel && schema != declcfg.SchemaBundle:
				report(d.Span, at, "something of schema %q is deprecated; expected one of %s, %s, %s", schema,
					declcfg.SchemaPackage, declcfg.SchemaChannel, declcfg.SchemaBundle)
			}
		}
	}
}

func checkUniqueReferences(s *subject, report report) {
	for _, d := range s.Deprecations {
		first := map[declcfg.PackageScopedReference]int{}
		for i, e := range d.Entries {
			if before, repeated := first[e.Reference]; repeated {
				report(d.Span, []any{"entries", i, "reference"}, "%s %q of package %q is deprecated twice; the first is number %d",
					e.Reference.Schema, e.Reference.Name, s.Name, before+1)
				continue
			}
			first[e.Reference] = i
		}
	}
}

func checkMessages(s *subject, report report) {
	for _, d := range s.Deprecations {
		for i, e := range d.Entries {
			if e.Message == "" {
				report(d.Span, []any{"entries", i}, "a deprecation of package %q has no message", s.Name)
			}
		}
	}
}
