package csimigration

import (
	"fmt"

	"github.com/berth-csi/berth/migrate"
)

// The steps.
const (
	PausePools           migrate.StepName = "pause-pools"             // pause all MachineConfigPools
	EnableGates          migrate.StepName = "enable-gates"            // enable the feature gates, or the feature set that has them
	EnableControlPlane   migrate.StepName = "enable-control-plane"    // set the feature set that the control plane heeds
	AwaitControlPlane    migrate.StepName = "await-control-plane"     // wait until the whole control plane has the feature gates
	UnpausePools         migrate.StepName = "unpause-pools"           // unpause the MachineConfigPools
	EnableNodes          migrate.StepName = "enable-nodes"            // set the feature set that the nodes heed, too
	AwaitNodes           migrate.StepName = "await-nodes"             // wait until each CSINode lists the plugins
	DisableGates         migrate.StepName = "disable-gates"           // disable the feature gates
	DisableNodes         migrate.StepName = "disable-nodes"           // set the feature set that the nodes do not heed
	AwaitNodesOff        migrate.StepName = "await-nodes-off"         // wait until no CSINode lists a plugin
	AwaitDetach          migrate.StepName = "await-detach"            // wait until drivers have no volume with an in-tree source attached
	DisableControlPlane  migrate.StepName = "disable-control-plane"   // restore the earlier feature set
	AwaitControlPlaneOff migrate.StepName = "await-control-plane-off" // wait until the control plane is without the feature gates
)

// sequence returns the names of the steps.
func (p *Plan) sequence() []migrate.StepName {
	switch {
	case p.Way == "":
		return nil
	case p.Direction == Downgrade:
		return []migrate.StepName{EnableNodes}
	case p.Direction == Enable && p.Way == TwoSets:
		return []migrate.StepName{EnableControlPlane, AwaitControlPlane, EnableNodes, AwaitNodes}
	case p.Direction == Enable && p.PausesPools:
		return []migrate.StepName{PausePools, EnableGates, AwaitControlPlane, UnpausePools, AwaitNodes}
	case p.Direction == Enable:
		return []migrate.StepName{EnableGates, AwaitControlPlane, AwaitNodes}
	case p.Way == TwoSets:
		return []migrate.StepName{DisableNodes, AwaitNodesOff, AwaitDetach, DisableControlPlane, AwaitControlPlaneOff}
	}
	return []migrate.StepName{DisableGates, AwaitNodesOff, AwaitDetach, AwaitControlPlaneOff}
}

// ListSteps returns the steps of the plan.
func (p *Plan) ListSteps() (found []migrate.Step) {
	for _, name := range p.sequence() {
		found = append(found, migrate.Step{Name: name, Does: p.Does(name), NoReturn: ways[p.Way].noReturn && name == EnableGates && !p.isListed()})
	}
	return found
}

// isListed reports whether the feature set was already the feature set of the way.
func (p *Plan) isListed() bool { return p.Before == ways[p.Way].sets[0] }

// Does describes a step of the plan or of its rollback.
func (p *Plan) Does(step migrate.StepName) string {
	if p.Way == "" {
		return ""
	}
	switch step {
	case PausePools:
		return "pause all MachineConfigPools, so that the nodes wait for the control plane"
	case EnableGates:
		if p.Way == Custom {
			return "list the feature gates in FeatureGate cluster as enabled, with feature set CustomNoUpgrade"
		}
		return fmt.Sprintf("set feature set %s in FeatureGate cluster", ways[p.Way].sets[0])
	case EnableControlPlane:
		return fmt.Sprintf("set feature set %s in FeatureGate cluster: the control plane heeds it, and the nodes do not", controlPlaneSet)
	case AwaitControlPlane:
		return "wait until each node of each component of the control plane runs a revision with the feature gates"
	case UnpausePools:
		return "unpause the MachineConfigPools"
	case EnableNodes:
		return fmt.Sprintf("set feature set %s in FeatureGate cluster: the nodes heed it, too", nodeSet)
	case AwaitNodes:
		return "wait until the machine-config operator has drained and restarted all nodes, and each CSINode lists the plugins"
	case DisableGates:
		return "list the feature gates in FeatureGate cluster as disabled; feature set CustomNoUpgrade stays"
	case DisableNodes:
		return fmt.Sprintf("set feature set %s in FeatureGate cluster: the control plane stays as it is, and the nodes are switched off", controlPlaneSet)
	case AwaitNodesOff:
		return "wait until the machine-config operator has drained and restarted all nodes, and no CSINode lists a plugin"
	case AwaitDetach:
		return "wait until no driver has a volume with an in-tree source attached"
	case DisableControlPlane:
		return fmt.Sprintf("set feature set %q in FeatureGate cluster: the control plane is switched off", p.Off)
	case AwaitControlPlaneOff:
		return "wait until each node of each component of the control plane runs a revision without the feature gates"
	}
	return ""
}
