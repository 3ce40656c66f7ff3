package csimigration

import (
	"context"
	"fmt"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
)

// OverviewSchema is the schema of an Overview in JSON.
const OverviewSchema = "berth.csi-migration-overview.v1"

// Overview is the state of CSI migration in the cluster.
type Overview struct {
	// Schema is OverviewSchema.
	Schema string `json:"schema"`
	// Version is the OpenShift version of the cluster.
	Version    string              `json:"version"`
	FeatureSet configv1.FeatureSet `json:"featureSet"`
	// Patched says that the Attach/Detach controller follows the nodes' reports, regardless of its own feature gates.
	Patched bool `json:"patched"`
	// Hosted says that the control plane is not on nodes of this cluster, so that nothing shows its state.
	Hosted  bool           `json:"hosted"`
	Plugins []PluginReport `json:"plugins"`
	// Waits names the parts of control plane and nodes that are being rolled out, or "".
	Waits string `json:"waits,omitempty"`
	// Safe reports whether it is safe to go on: nothing is stranded, in a wrong order, or being rolled out, no driver is missing, and the
	// state of each plugin that can be switched is known.
	Safe bool `json:"safe"`
	// Migration is the migration in progress.
	Migration *migrate.Status[*Plan] `json:"migration,omitempty"`
}

// PluginReport is the state of a plugin.
type PluginReport struct {
	Plugin string `json:"plugin"`
	Driver string `json:"driver"`
	Gate   string `json:"gate"`
	// Locked says that the gate is on for good.
	Locked     bool       `json:"locked"`
	Components []Standing `json:"components"`
	// DriverMissing says why the driver is not available on all nodes; "" if it is, or if nobody uses the plugin.
	DriverMissing string `json:"driverMissing,omitempty"`
	// Used says that the driver is installed, or that volumes with the in-tree source exist.
	Used    bool `json:"used"`
	Volumes int  `json:"volumes"`
	// Attached counts volumes with the in-tree source that the driver has attached.
	Attached   int        `json:"attached"`
	WrongOrder string     `json:"wrongOrder,omitempty"`
	Stranded   []Stranded `json:"stranded,omitempty"`
}

// Observe returns the state of CSI migration in the cluster, with the migration in progress.
func Observe(ctx context.Context, cluster migrate.Cluster) (*Overview, error) {
	o, err := observe(ctx, cluster.Client)
	if err != nil {
		return nil, err
	}
	report := o.overview()
	report.Migration, err = Open(ctx, cluster)
	return report, err
}

// Open returns the status of the migration in progress, or nil.
func Open(ctx context.Context, cluster migrate.Cluster) (*migrate.Status[*Plan], error) {
	found, err := Switch.Find(ctx, cluster, Request{})
	if err != nil || found == nil || found.Phase != migrate.Applying && found.Phase != migrate.RollingBack {
		return nil, err
	}
	return found, nil
}

func (o *observed) overview() *Overview {
	report := &Overview{Schema: OverviewSchema, Version: o.version.String(), Patched: isPatched(o.version), Hosted: o.hosted, Safe: true}
	if o.featureGate != nil {
		report.FeatureSet = o.featureGate.Spec.FeatureSet
	}
	for _, d := range plugins() {
		p := PluginReport{
			Plugin: d.InTree.Plugin, Driver: d.CSIName, Gate: d.InTree.Gate, Locked: isMigrated(d, o.version), Components: o.standings(d),
			Volumes: len(o.volumes[d.Name]), WrongOrder: o.wrongOrder(d), Stranded: o.stranded(d),
		}
		p.Used = p.Volumes > 0 || o.drivers[d.Name].installed
		for _, a := range o.attachments {
			if a.driver == d.Name {
				p.Attached++
			}
		}
		if p.Used {
			p.DriverMissing = o.driverDiffers(plugins()[len(report.Plugins) : len(report.Plugins)+1])
		}
		report.Safe = report.Safe && (p.Locked || !o.hosted) && p.WrongOrder == "" && len(p.Stranded) == 0 && p.DriverMissing == ""
		report.Plugins = append(report.Plugins, p)
	}
	report.Waits = o.rollouts()
	report.Safe = report.Safe && report.Waits == ""
	return report
}

// rollouts names the parts of control plane and nodes that are being rolled out, or "".
func (o *observed) rollouts() string {
	for _, component := range o.operators {
		if component.found && len(component.nodes) == 0 {
			return fmt.Sprintf("%s cluster reports no node yet", component.kind)
		}
		if moving := component.rollout(); moving != "" {
			return component.component + moving
		}
	}
	return o.poolsDiffer("")
}

// Text describes the overview for people.
func (r *Overview) Text(colour findings.Palette) string {
	var t escape.Lines
	t.Add("CSI migration of the cluster, version %s, feature set %q", r.Version, string(r.FeatureSet))
	if r.Hosted {
		t.Add("%s: nothing shows where it stands, except that gates are on for good in this version", hostedElsewhere)
	}
	var locked []string
	for _, p := range r.Plugins {
		if p.Locked {
			locked = append(locked, p.Plugin)
		}
		if p.Locked && len(p.Stranded) == 0 && p.DriverMissing == "" && p.WrongOrder == "" {
			continue // its state is known, and nobody can change it
		}
		t.Add("")
		notes := []string{"feature gate " + p.Gate}
		if p.Locked {
			notes = append(notes, "on for good")
		}
		if !p.Used {
			notes = append(notes, "without driver and volumes")
		}
		t.Add("%s, %s", p.Plugin, strings.Join(notes, ", "))
		for _, s := range p.Components {
			if p.Locked {
				break
			}
			line := s.String()
			if !s.is(true) && !s.is(false) {
				line += ": " + s.other(true)
			}
			t.Add("  %-24s %s", s.Component, line)
		}
		if p.Used {
			t.Add("  %-24s %d with the in-tree source; driver %s has attached %d", "volumes", p.Volumes, p.Driver, p.Attached)
		}
		for _, bad := range []string{p.DriverMissing, p.WrongOrder} {
			if bad != "" {
				t.AddMarked("  "+colour.Mark(findings.Refused), " %s", bad)
			}
		}
		for _, s := range p.Stranded {
			t.AddMarked("  "+colour.Mark(findings.Refused), " volume %s on node %s is stranded: %s", s.Volume, s.Node, s.Why)
			t.Add("    do: %s", s.Do)
		}
	}
	t.Add("")
	switch {
	case len(locked) == len(r.Plugins):
		t.Add("There is nothing to switch: version %s has all feature gates of CSI migration on for good, so CSI drivers serve the volumes of all in-tree plugins.", r.Version)
	case len(locked) > 0:
		t.Add("There is nothing to switch for %s: version %s has their feature gates on for good.", strings.Join(locked, ", "), r.Version)
	}
	switch {
	case r.Safe && len(locked) == len(r.Plugins):
	case r.Safe:
		t.AddMarked(colour.Mark(findings.OK), " Nothing is being rolled out, and no volume is stranded: it is safe to go on.")
	case r.Waits != "":
		t.AddMarked(colour.Mark(findings.Warning), " It is not safe to go on yet: %s", r.Waits)
	default:
		t.AddMarked(colour.Mark(findings.Refused), " It is not safe to go on. See above for what to do.")
	}
	text := t.String()
	if r.Migration != nil {
		text += "\n" + r.Migration.Text(colour)
	}
	return text
}
