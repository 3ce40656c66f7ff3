// Package gates defines profiles: the gates whose verdict people want to know in advance.
package gates

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/nearest"
	"github.com/berth-csi/berth/internal/openshift"
)

// Profile says for which gates bundles and catalogs are checked. With the zero value, only the rules of OLM and of the API server apply.
type Profile struct {
	gates map[findings.Gate]bool
	// Versions are the versions of OpenShift that have to install the checked bundles, in order.
	Versions []openshift.Version
}

// named are the gates with a profile of the same name.
var named = []string{string(findings.Community), string(findings.Certified), string(findings.Konflux), string(findings.OperatorHub)}

// openShiftPrefix is the prefix of profiles for versions of OpenShift.
const openShiftPrefix = string(findings.OpenShift) + "-"

// Names returns the names of all profiles.
func Names() []string {
	all := slices.Clone(named)
	for _, r := range openshift.Releases {
		all = append(all, openShiftPrefix+r.Version.String())
	}
	return all
}

// Parse returns the union of the named profiles.
func Parse(names []string) (Profile, error) {
	p := Profile{gates: map[findings.Gate]bool{}}
	for _, name := range names {
		text, isVersion := strings.CutPrefix(name, openShiftPrefix)
		if !isVersion {
			if !slices.Contains(named, name) {
				return p, fmt.Errorf("there is no profile %q; expected %s or %s with a version of OpenShift%s", name, strings.Join(named, ", "), openShiftPrefix+"4.20", nearest.Hint(name, Names()))
			}
			p.gates[findings.Gate(name)] = true
			continue
		}
		v, err := openshift.Parse(text)
		if err != nil {
			return p, fmt.Errorf("profile %q: %w", name, err)
		}
		if _, known := openshift.Find(v); !known {
			last := openshift.Releases[len(openshift.Releases)-1]
			return p, fmt.Errorf("profile %q: OpenShift %s is not known here; expected one from %s to %s", name, v, openshift.Releases[0].Version, last.Version)
		}
		p.gates[findings.OpenShift] = true
		if !slices.Contains(p.Versions, v) {
			p.Versions = append(p.Versions, v)
		}
	}
	slices.SortFunc(p.Versions, openshift.Version.Compare)
	return p, nil
}

// Has reports whether the profile has one of the gates.
func (p Profile) Has(gates ...findings.Gate) bool {
	return slices.ContainsFunc(gates, func(g findings.Gate) bool { return p.gates[g] })
}

// Enforces reports whether a gate of the profile refuses violations of a rule.
func (p Profile) Enforces(r findings.Rule) bool { return p.Has(r.Gates...) }

// Applied returns the rules that apply.
func (p Profile) Applied(rules []findings.Rule) []findings.Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r findings.Rule) bool { return r.ByGates && !p.Enforces(r) })
}

// Severity returns Error if a gate of the profile refuses violations of the rule, or else own.
func (p Profile) Severity(r findings.Rule, own findings.Verdict) findings.Verdict {
	if p.Enforces(r) {
		return findings.Error
	}
	return own
}

// Names returns the names of the profiles in this one, sorted.
func (p Profile) Names() (names []string) {
	for _, gate := range slices.Sorted(maps.Keys(p.gates)) {
		if gate != findings.OpenShift {
			names = append(names, string(gate))
		}
	}
	for _, v := range p.Versions {
		names = append(names, openShiftPrefix+v.String())
	}
	return names
}
