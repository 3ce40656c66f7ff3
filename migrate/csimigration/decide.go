package csimigration

import (
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/migrate"
)

// state is the observed state that the next step is decided from.
type state struct {
	*observed
	plan    *Plan
	journal *migrate.Journal
}

// Next decides on the next step.
func (s *state) Next() (migrate.Decision, error) {
	if s.plan.Way == "" { // nothing is to be switched
		return migrate.NoStep()
	}
	if s.plan.Direction == Downgrade {
		if s.position() < s.last() {
			return migrate.Execute(EnableNodes)
		}
		return migrate.NoStep()
	}
	return s.toward(s.plan.Direction == Enable)
}

// Back decides on the next step of a rollback, which is to switch in the other direction.
func (s *state) Back() (migrate.Decision, error) {
	if ways[s.plan.Way].noReturn && s.featureSet() != s.plan.Before {
		return migrate.Decision{}, fmt.Errorf("feature set %s cannot be left: this is beyond the point of no return. Continue with `%s`",
			s.featureSet(), s.journal.Command(s.plan, "apply"))
	}
	if s.plan.Direction == Downgrade {
		if s.featureSet() != s.plan.Before {
			return migrate.Execute(DisableControlPlane)
		}
		return migrate.NoStep()
	}
	return s.toward(s.plan.Direction != Enable)
}

// toward returns the next step of switching on or off.
func (s *state) toward(on bool) (migrate.Decision, error) {
	stages := []func() (migrate.Decision, error){s.disableNodes, s.leaveDrivers, s.disableControlPlane}
	if on {
		stages = []func() (migrate.Decision, error){s.pauseNodes, s.enableControlPlane, s.enableNodes}
	}
	for _, stage := range stages {
		if next, err := stage(); err != nil || next.Step != "" {
			return next, err
		}
	}
	return migrate.NoStep()
}

// pauseNodes is complete when no node can be switched on before the control plane is. Only a list of gates needs this stage, because all
// components heed the list at once.
func (s *state) pauseNodes() (migrate.Decision, error) {
	if !s.plan.PausesPools || s.position() == s.last() && s.controlPlaneDiffers(s.of(), true) == "" {
		return migrate.NoStep()
	}
	if s.unpaused() != nil {
		return migrate.Execute(PausePools)
	}
	return migrate.NoStep()
}

// enableControlPlane is complete when the control plane is on.
func (s *state) enableControlPlane() (migrate.Decision, error) {
	first := EnableControlPlane
	if s.last() == 1 {
		first = EnableGates
	}
	if s.position() == 0 {
		if missing := s.driverDiffers(s.of()); missing != "" {
			return migrate.Wait(first, "%s", missing)
		}
		if moving := s.poolsDiffer(""); moving != "" && !s.plan.PausesPools {
			return migrate.Wait(first, "%s", moving)
		}
		return migrate.Execute(first)
	}
	if differs := s.controlPlaneDiffers(s.of(), true); differs != "" {
		return migrate.Wait(AwaitControlPlane, "%s", differs)
	}
	return migrate.NoStep()
}

// enableNodes is complete when all nodes are on.
func (s *state) enableNodes() (migrate.Decision, error) {
	if s.position() < s.last() {
		if missing := s.driverDiffers(s.of()); missing != "" {
			return migrate.Wait(EnableNodes, "%s", missing)
		}
		if moving := s.poolsDiffer(""); moving != "" {
			return migrate.Wait(EnableNodes, "%s", moving)
		}
		return migrate.Execute(EnableNodes)
	}
	if s.plan.PausesPools && s.paused() != nil {
		return migrate.Execute(UnpausePools)
	}
	if differs := s.nodesDiffer(s.of(), true); differs != "" {
		return migrate.Wait(AwaitNodes, "%s", differs)
	}
	return migrate.NoStep()
}

// disableNodes is complete when all nodes are off.
func (s *state) disableNodes() (migrate.Decision, error) {
	switch {
	case s.position() == 2:
		return migrate.Execute(DisableNodes)
	case s.position() == 1 && s.last() == 1:
		return migrate.Execute(DisableGates)
	case s.position() == 0 && s.plan.PausesPools && s.paused() != nil: // in a rollback
		return migrate.Execute(UnpausePools)
	}
	if differs := s.nodesDiffer(s.of(), false); differs != "" {
		return migrate.Wait(AwaitNodesOff, "%s", differs)
	}
	return migrate.NoStep()
}

// leaveDrivers is complete when no driver has a volume attached that the in-tree plugin would have to detach.
func (s *state) leaveDrivers() (migrate.Decision, error) {
	if left := s.attachedBy(s.of()); len(left) > 0 {
		a := left[0]
		return migrate.Wait(AwaitDetach, "VolumeAttachment %s of volume %s on node %s to be gone, and %d others", a.name, a.volume, a.node, len(left)-1)
	}
	return migrate.NoStep()
}

// disableControlPlane is complete when the control plane is off.
func (s *state) disableControlPlane() (migrate.Decision, error) {
	if s.position() == 1 {
		return migrate.Execute(DisableControlPlane)
	}
	if differs := s.controlPlaneDiffers(s.of(), false); differs != "" {
		return migrate.Wait(AwaitControlPlaneOff, "%s", differs)
	}
	return migrate.NoStep()
}

// Verify fails unless the FeatureGate is the plan's, and has a setting that occurs during the migration.
func (s *state) Verify() error {
	switch {
	case s.featureGate == nil:
		return fmt.Errorf("somebody has deleted FeatureGate cluster; %s", s.journal.Abandon())
	case s.featureGate.UID != s.plan.Subject.UID:
		return fmt.Errorf("somebody has recreated FeatureGate cluster: its UID is %s, want %s; %s", s.featureGate.UID, s.plan.Subject.UID, s.journal.Abandon())
	case s.version.String() != s.plan.Version:
		return fmt.Errorf("the cluster is being updated from version %s to %s: wait until that is done, then %s", s.plan.Version, s.version, s.journal.Abandon())
	case s.plan.Way != "" && s.position() < 0:
		return fmt.Errorf("somebody has changed FeatureGate cluster: spec.featureSet is %q with the gates %s, want one of %q; set it back, or %s",
			s.featureSet(), s.describeGates(), s.settings(), s.journal.Abandon())
	}
	return nil
}

// Holds reports whether the cluster is still as the migration has left it.
func (s *state) Holds() (bool, error) {
	if s.Verify() != nil {
		return false, nil
	}
	next, err := s.Next()
	return err == nil && next == migrate.Decision{}, nil
}

// IsRestored reports whether the FeatureGate is as before the migration.
func (s *state) IsRestored() bool { return s.featureGate != nil && s.featureSet() == s.plan.Before }

// of returns the plugins that are switched.
func (s *state) of() []drivers.Driver { return s.plan.drivers() }

func (s *state) featureSet() configv1.FeatureSet { return s.featureGate.Spec.FeatureSet }

// settings returns the values of spec.featureSet that lead from off to on.
func (s *state) settings() []configv1.FeatureSet {
	return append([]configv1.FeatureSet{s.plan.Off}, ways[s.plan.Way].sets...)
}

// last returns the position at which all is switched on.
func (s *state) last() int { return len(ways[s.plan.Way].sets) }

// position returns how far the FeatureGate is from off to on: an index of settings, or -1 if it has none of them.
func (s *state) position() int {
	if s.plan.Way != Custom {
		return slices.Index(s.settings(), s.featureSet())
	}
	if s.featureSet() != configv1.CustomNoUpgrade {
		return slices.Index(s.settings()[:1], s.featureSet())
	}
	on := 0
	for _, d := range s.of() {
		if s.isListed(d) {
			on++
		}
	}
	switch on {
	case 0:
		return 0
	case len(s.of()):
		return 1
	}
	return -1
}

// isListed reports whether the list of gates switches a plugin on.
func (o *observed) isListed(d drivers.Driver) bool {
	listed := o.featureGate.Spec.CustomNoUpgrade
	if listed == nil {
		return false
	}
	for _, gate := range []configv1.FeatureGateName{generalGate, configv1.FeatureGateName(d.InTree.Gate)} {
		if !slices.Contains(listed.Enabled, gate) || slices.Contains(listed.Disabled, gate) {
			return false
		}
	}
	return true
}

func (o *observed) describeGates() string {
	if listed := o.featureGate.Spec.CustomNoUpgrade; listed != nil {
		return fmt.Sprintf("enabled %q, disabled %q", listed.Enabled, listed.Disabled)
	}
	return "none"
}

// pausedAnnotation marks the pools that a migration has paused.
const pausedAnnotation = "csi-migration.berth-csi.github.io/paused"

// unpaused returns a pool that is not paused, or nil.
func (o *observed) unpaused() *mcfgv1.MachineConfigPool {
	for i := range o.pools {
		if !o.pools[i].Spec.Paused {
			return &o.pools[i]
		}
	}
	return nil
}

// paused returns a pool that a migration has paused, or nil.
func (o *observed) paused() *mcfgv1.MachineConfigPool {
	for i := range o.pools {
		if _, ours := o.pools[i].Annotations[pausedAnnotation]; ours {
			return &o.pools[i]
		}
	}
	return nil
}
