package rules

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
)

// packageRules are the rules about packages.
var packageRules = []rule{
	{Rule: findings.Rule{ID: "package-declared", Severity: findings.Error,
		What: "Every package that a document names is declared.",
		Why:  "OLM's tools reject the catalog."},
		complete: true, check: checkDeclared},
	{Rule: findings.Rule{ID: "package-name", Severity: findings.Error,
		What: "A package's name is a DNS label.",
		Why:  "OLM's tools reject the catalog."},
		check: checkPackageName},
	{Rule: findings.Rule{ID: "package-channels", Severity: findings.Error,
		What: "A package has a channel.",
		Why:  "OLM's tools reject the catalog. This often happens when a catalog is filtered."},
		complete: true, check: checkChannels},
	{Rule: findings.Rule{ID: "default-channel", Severity: findings.Error,
		What: "A package's default channel is one of its channels.",
		Why:  "OLM's tools reject the catalog. This often happens when a catalog is filtered."},
		complete: true, check: checkDefaultChannel},
}

func checkDeclared(s *subject, report report) {
	if !s.Declared {
		report(s.Span, nil, "package %q is not declared; expected a document of schema olm.package and name %q", s.Name, s.Name)
	}
}

func checkPackageName(s *subject, report report) {
	if faults := validation.IsDNS1123Label(s.Name); s.Declared && len(faults) > 0 {
		report(s.Span, []any{"name"}, "package name %q: %s", s.Name, strings.Join(faults, "; "))
	}
}

func checkChannels(s *subject, report report) {
	if s.Declared && len(s.Channels) == 0 {
		report(s.Span, nil, "package %q has no channel; expected a document of schema olm.channel and package %q", s.Name, s.Name)
	}
}

func checkDefaultChannel(s *subject, report report) {
	switch {
	case !s.Declared || len(s.Channels) == 0:
	case s.DefaultChannel == "":
		f := report(s.Span, nil, "package %q has no field defaultChannel; expected one of its channels %s", s.Name, s.channelNames())
		if len(s.Channels) == 1 {
			correct(f, s.Span, func(d document.Document) []findings.Edit { return d.Added(nil, "defaultChannel", s.Channels[0].Name) })
		}
	case s.FindChannel(s.DefaultChannel) == nil:
		at := []any{"defaultChannel"}
		f := report(s.Span, at, "defaultChannel is %q, which is not a channel of package %q; expected one of %s",
			s.DefaultChannel, s.Name, s.channelNames())
		if len(s.Channels) == 1 {
			correct(f, s.Span, func(d document.Document) []findings.Edit { return d.Replaced(at, s.Channels[0].Name) })
		}
	}
}

// channelNames lists the package's channels.
func (s *subject) channelNames() string {
	var names []string
	for _, c := range s.Channels {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}
