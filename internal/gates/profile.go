// Package gates says which gates people want to know the answers of before they ask them: profiles.
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

// Profile is the gates that bundles and catalogs are checked for. The zero value has none: then only the rules of OLM and its API server apply.
type Profile struct {
	gates map[findings.Gate]bool
	// Versions are the versions of OpenShift that have to install what is checked, in order.
	Versions []openshift.Version
}

// named are the gates that have a profile of their own name.
var named = []string{string(findings.Community), string(findings.Certified), string(findings.Konflux), string(findings.OperatorHub)}

// openShiftPrefix begins the names of profiles of versions of OpenShift.
const openShiftPrefix = string(findings.OpenShift) + "-"

// Names are the names of all profiles.
func Names() []string {
	all := slices.Clone(named)
	for _, r := range openshift.Releases {
		all = append(all, openShiftPrefix+r.Version.String())
	}
	return all
}

// Parse returns the profile that consists of those with the names.
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

// Has reports whether one of gates is in the profile.
func (p Profile) Has(gates ...findings.Gate) bool {
	return slices.ContainsFunc(gates, func(g findings.Gate) bool { return p.gates[g] })
}

// Asks reports whether a gate of the profile refuses what violates a rule.
func (p Profile) Asks(r findings.Rule) bool { return p.Has(r.Gates...) }

// Applied returns those of rules that apply.
func (p Profile) Applied(rules []findings.Rule) []findings.Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r findings.Rule) bool { return r.ByGates && !p.Asks(r) })
}

// Severity is that of a finding with a severity of its own if its rule is one that gates refuse: an error for those of the profile.
func (p Profile) Severity(r findings.Rule, own findings.Severity) findings.Severity {
	if p.Asks(r) {
		return findings.Error
	}
	return own
}

// Names returns the names of the profiles that make this one, sorted.
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
