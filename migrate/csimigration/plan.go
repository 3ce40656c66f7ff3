// Package csimigration switches CSI migration on and off, in the right order. With CSI migration, Kubernetes hands volumes with in-tree
// sources, such as a cloud's disks, to CSI drivers. The package is a migration of package migrate, and the command "berth csi-migration".
//
// CSI migration has to be switched on in the control plane before the nodes, and switched off on the nodes before the control plane.
// Otherwise volumes stay attached for ever, because the component that would have to detach them is not the component that attached them.
// The machine-config operator drains the nodes one by one. No driver is installed or removed.
//
// # How it decides
//
// The definition of a driver says which in-tree volumes Kubernetes hands to it (drivers.InTree): the volume source, the plugin's name, its
// feature gate, and the OpenShift versions from which the gate can be switched, and from which it is on for good. migrate/csimigration
// reads the cluster once for each decision (observed.go), determines the state of each component (standing.go), and decides (decide.go). A
// component of the control plane is on when each of its nodes runs a revision whose ConfigMaps have the gate; a kubelet is on when its
// CSINode lists the plugin. A table lists the ways to configure the cluster (way.go). Switching off uses the same function as rolling back
// a switch-on.
//
// test/restarts simulates the operators that restart the components, against a real API server.
package csimigration

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
)

// Switch runs the migrations of this package. The subject is the FeatureGate of the cluster, so there is one at a time.
var Switch = migrate.Engine[*Plan]{
	Name:          "csi-migration",
	Noun:          "a switch of CSI migration",
	Kind:          "FeatureGate",
	ClusterScoped: true,
	Schema:        "berth.csi-migration-plan.v1",
	StatusSchema:  "berth.csi-migration-status.v1",
	New:           func() *Plan { return &Plan{} },
	Changes:       changes,
	Verb:          verb,
}

// Direction is the goal of a plan.
type Direction string

// The directions.
const (
	Enable  Direction = "enable"
	Disable Direction = "disable"
	// Downgrade sets the feature set that keeps the nodes migrated while the control plane is downgraded.
	Downgrade Direction = "downgrade"
)

// Plan is how CSI migration is switched.
type Plan struct {
	migrate.Outline
	Direction Direction `json:"direction"`
	// Plugins are the names of the drivers whose plugins are switched.
	Plugins []string `json:"plugins,omitempty"`
	// Way is how the cluster is configured, or empty if it cannot be.
	Way Way `json:"way,omitempty"`
	// Version is the OpenShift version of the cluster.
	Version string `json:"version"`
	// To is the version to downgrade to.
	To string `json:"to,omitempty"`
	// Before is the feature set when the plan was made, and Off the one that switches everything off.
	Before configv1.FeatureSet `json:"before"`
	Off    configv1.FeatureSet `json:"off"`
	// PausesPools says that MachineConfigPools are paused until the control plane is on.
	PausesPools bool `json:"pausesPools,omitempty"`
}

// drivers returns the definitions of the drivers whose plugins are switched.
func (p *Plan) drivers() []drivers.Driver {
	return slices.DeleteFunc(plugins(), func(d drivers.Driver) bool { return !slices.Contains(p.Plugins, d.Name) })
}

// Irreversible names the parts of the plan that cannot be undone, or "".
func (p *Plan) Irreversible() string {
	for _, c := range p.Checks {
		if c.Code == irreversible && c.Verdict == findings.Warning {
			return c.What
		}
	}
	return ""
}

// Drivers returns the names of the drivers whose plugins can be switched, sorted.
func Drivers() (names []string) {
	for _, d := range plugins() {
		names = append(names, d.Name)
	}
	return names
}

// verb returns the command's name for a verb of the engine.
func verb(p *Plan, verb string) string {
	switch {
	case verb == "apply":
		return "resume"
	case verb == "rollback" && p.Direction == Disable:
		return string(Enable)
	case verb == "rollback":
		return string(Disable)
	}
	return verb
}

// changes returns the differences between two plans.
func changes(was, now *Plan) []string {
	var found []string
	compare := func(what string, was, is any) {
		if was != is {
			found = append(found, fmt.Sprintf("%s was %v and is %v", what, was, is))
		}
	}
	compare("the FeatureGate's UID", was.Subject.UID, now.Subject.UID)
	compare("the direction", was.Direction, now.Direction)
	compare("the plugins", strings.Join(was.Plugins, ", "), strings.Join(now.Plugins, ", "))
	compare("the way", was.Way, now.Way)
	compare("the version of the cluster", was.Version, now.Version)
	compare("the version to downgrade to", was.To, now.To)
	compare("the feature set", was.Before, now.Before)
	return found
}

// Arguments returns the command line arguments that select the migration: none, as there is one migration at a time.
func (p *Plan) Arguments(string) string { return "" }

// Text describes the plan for people.
func (p *Plan) Text(colour findings.Palette) string { return migrate.Text(p, colour) }

// Describe writes the plugins and the direction.
func (p *Plan) Describe(lines *escape.Lines) {
	title := map[Direction]string{Enable: "on", Disable: "off", Downgrade: "kept on for a downgrade to version " + p.To}[p.Direction]
	lines.Add("CSI migration of the cluster, version %s: %s", p.Version, title)
	for _, d := range p.drivers() {
		lines.Add("  %-28s volumes of driver %s, by feature gate %s", d.InTree.Plugin, d.CSIName, d.InTree.Gate)
	}
	if p.Way != "" {
		lines.Add("  by %s", ways[p.Way].does)
	}
}

// plan makes a plan.
func (o *observed) plan(r Request) *Plan {
	p := &Plan{Direction: r.Direction, To: r.To, Version: o.version.String(), Outline: migrate.Outline{Subject: migrate.Subject{Name: "cluster"}}}
	if o.featureGate == nil {
		p.Checks = migrate.Refuse(featureGate, "use this command on OpenShift or OKD", "there is no FeatureGate cluster: want an OpenShift cluster")
		return p
	}
	p.Subject.UID, p.Before = o.featureGate.UID, o.featureGate.Spec.FeatureSet
	if p.Before == configv1.OKD {
		p.Off = configv1.OKD
	}
	p.Checks = o.choose(p, r)
	if !p.Checks.Safe() || len(p.Plugins) == 0 || p.Way == "" {
		return p
	}
	p.PausesPools = p.Way == Custom && !isPatched(o.version)
	s := &state{observed: o, plan: p}
	p.Checks = append(p.Checks, s.checks(r)...)
	if p.Checks.Safe() {
		p.Objects = s.objects()
	}
	return p
}

// objects returns the objects that will change. The result is empty if nothing is left to do.
func (s *state) objects() (objects []migrate.Object) {
	if next, err := s.Next(); err == nil && (next == migrate.Decision{}) {
		return nil
	}
	add := func(by, kind, name, how string) {
		objects = append(objects, migrate.Object{By: by, Kind: kind, Name: name, How: how})
	}
	add("berth", "FeatureGate", "cluster", "updated")
	if s.plan.Direction == Downgrade {
		return objects
	}
	for _, p := range s.pools {
		if s.plan.PausesPools {
			add("berth", "MachineConfigPool", p.Name, "paused until the control plane is migrated")
		}
	}
	for _, component := range s.operators {
		add("operators", component.kind, "cluster", "rolled out on each node of the control plane")
	}
	for _, n := range s.nodes {
		add("machine-config operator", "Node", n.name, "drained, and restarted, one by one")
	}
	return objects
}

// Validate fails unless every field has a value that a plan can have. The writes follow from the direction and the way.
func (p *Plan) Validate() error {
	var errs []error
	if p.Subject.Name != "cluster" {
		errs = append(errs, fmt.Errorf("subject.name is %q, want %q", p.Subject.Name, "cluster"))
	}
	if !slices.Contains([]Direction{Enable, Disable, Downgrade}, p.Direction) {
		errs = append(errs, fmt.Errorf("direction is %q, want one of %q", p.Direction, []Direction{Enable, Disable, Downgrade}))
	}
	version, err := semver.Parse(p.Version)
	if err != nil {
		errs = append(errs, fmt.Errorf("version is %q, want a version", p.Version))
	}
	if p.To != "" || p.Direction == Downgrade {
		if _, err := semver.Parse(p.To); err != nil {
			errs = append(errs, fmt.Errorf("to is %q, want a version", p.To))
		}
	}
	if p.Way != "" && !slices.Contains(Ways, p.Way) {
		errs = append(errs, fmt.Errorf("way is %q, want one of %q", p.Way, Ways))
	}
	if p.Way == OneSet && p.Direction != Enable || p.Way != TwoSets && p.Direction == Downgrade {
		errs = append(errs, fmt.Errorf("way is %q, which cannot %s", p.Way, p.Direction))
	}
	if found := p.drivers(); len(found) != len(p.Plugins) {
		errs = append(errs, fmt.Errorf("plugins are %q, want names of drivers with an in-tree plugin, each once", p.Plugins))
	}
	if !slices.IsSorted(p.Plugins) {
		errs = append(errs, fmt.Errorf("plugins are %q, want them sorted", p.Plugins))
	}
	if want := p.Way == Custom && !isPatched(version); p.PausesPools != want {
		errs = append(errs, fmt.Errorf("pausesPools is %t, want %t with way %q in version %s", p.PausesPools, want, p.Way, p.Version))
	}
	if p.Off != configv1.Default && p.Off != configv1.OKD {
		errs = append(errs, fmt.Errorf("off is %q, want %q or %q", p.Off, configv1.Default, configv1.OKD))
	}
	return errors.Join(append(errs, migrate.ValidateWord("before", string(p.Before)))...)
}

// ValidateNotes fails if the journal has notes.
func (p *Plan) ValidateNotes(notes map[string]string) error {
	for key := range notes {
		return fmt.Errorf("unknown key %q", key)
	}
	return nil
}
