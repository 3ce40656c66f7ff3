package csimigration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// kubelets is the component that all nodes have.
const kubelets = "kubelet"

// Standing is the state of a plugin in a component: the nodes where it is on, and where it is off.
type Standing struct {
	Component string   `json:"component"`
	On        []string `json:"on,omitempty"`
	Off       []string `json:"off,omitempty"`
	// Unknown are the nodes with an unknown state, each with the reason.
	Unknown []string `json:"unknown,omitempty"`
}

// is reports whether the component is on, or off, on all nodes.
func (s Standing) is(on bool) bool {
	if on {
		return len(s.Off)+len(s.Unknown) == 0 && len(s.On) > 0
	}
	return len(s.On)+len(s.Unknown) == 0 && len(s.Off) > 0
}

// other describes the nodes where the component is not as wanted.
func (s Standing) other(on bool) string {
	nodes, word := s.Off, "off"
	if !on {
		nodes, word = s.On, "on"
	}
	var parts []string
	if len(nodes) > 0 {
		parts = append(parts, fmt.Sprintf("%s on %s", word, shortList(nodes)))
	}
	if len(s.Unknown) > 0 {
		parts = append(parts, "unknown on "+shortList(s.Unknown))
	}
	if len(parts) == 0 {
		return "on no node"
	}
	return strings.Join(parts, ", and ")
}

// String describes the standing on all nodes.
func (s Standing) String() string {
	all := len(s.On) + len(s.Off) + len(s.Unknown)
	if all == 0 {
		return "unknown"
	}
	var parts []string
	for _, part := range []struct {
		word  string
		nodes []string
	}{{"on", s.On}, {"off", s.Off}, {"unknown", s.Unknown}} {
		switch n := len(part.nodes); {
		case n == all:
			return part.word
		case n > 0:
			parts = append(parts, fmt.Sprintf("%d of %d nodes %s", n, all, part.word))
		}
	}
	return strings.Join(parts, ", ")
}

// shortList lists a few names.
func shortList(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// standings returns the state of a plugin in each component, the control plane first.
func (o *observed) standings(d drivers.Driver) []Standing {
	var found []Standing
	for _, component := range o.operators {
		found = append(found, component.standing(d, isMigrated(d, o.version), o.nodes))
	}
	return append(found, o.nodeStanding(d))
}

// standing returns the state of a plugin in a component of the control plane.
func (o *operator) standing(d drivers.Driver, byDefault bool, nodes []node) Standing {
	s := Standing{Component: o.component}
	reported := map[string]bool{}
	for _, status := range o.nodes {
		reported[status.NodeName] = true
		gates, known := o.gates[status.CurrentRevision]
		on, listed := gates[d.InTree.Gate]
		general, generalListed := gates[generalGate]
		switch {
		case !known:
			s.Unknown = append(s.Unknown, fmt.Sprintf("%s (there is no ConfigMap config-%d in %s)", status.NodeName, status.CurrentRevision, o.namespace))
		case (listed && on || !listed && byDefault) && (general || !generalListed):
			s.On = append(s.On, status.NodeName)
		default:
			s.Off = append(s.Off, status.NodeName)
		}
	}
	for _, n := range nodes {
		if n.controlPlane && !reported[n.name] {
			s.Unknown = append(s.Unknown, fmt.Sprintf("%s (%s cluster does not report it)", n.name, o.kind))
		}
	}
	return s
}

// nodeStanding returns the state of a plugin in the kubelets.
func (o *observed) nodeStanding(d drivers.Driver) Standing {
	s := Standing{Component: kubelets}
	for _, n := range o.nodes {
		switch {
		case !n.hasCSINode:
			s.Unknown = append(s.Unknown, n.name+" (there is no CSINode)")
		case n.migrated.Has(d.InTree.Plugin):
			s.On = append(s.On, n.name)
		default:
			s.Off = append(s.Off, n.name)
		}
	}
	return s
}

// controlPlaneDiffers names a part of the control plane that is not as wanted for some plugins, or returns "" if each node of each
// component runs the latest revision, and that has the gates as wanted.
func (o *observed) controlPlaneDiffers(of []drivers.Driver, on bool) string {
	for _, component := range o.operators {
		if !component.found {
			return fmt.Sprintf("there is no %s cluster", component.kind)
		}
		for _, d := range of {
			byDefault := isMigrated(d, o.version)
			if s := component.standing(d, byDefault, o.nodes); !s.is(on) {
				return fmt.Sprintf("%s, where %s is %s%s", component.component, d.InTree.Gate, s.other(on), component.rollout())
			}
		}
		if moving := component.rollout(); moving != "" {
			return component.component + moving
		}
	}
	return ""
}

// rollout describes what is left of the roll-out of a component's latest revision, starting with a colon; "" if nothing is left.
func (o *operator) rollout() string {
	for _, status := range o.nodes {
		switch {
		case status.LastFailedRevision != 0 && status.LastFailedRevision == o.latest && status.CurrentRevision != o.latest:
			return fmt.Sprintf(": revision %d has failed on %s: %s", o.latest, status.NodeName, strings.Join(append([]string{status.LastFailedReason}, status.LastFailedRevisionErrors...), " "))
		case status.TargetRevision != 0 || status.CurrentRevision != o.latest:
			return fmt.Sprintf(": revision %d is not on %s yet, which has %d", o.latest, status.NodeName, status.CurrentRevision)
		}
	}
	return ""
}

// nodesDiffer describes the nodes that are not as wanted for some plugins, or "".
func (o *observed) nodesDiffer(of []drivers.Driver, on bool) string {
	for _, d := range of {
		if s := o.nodeStanding(d); !s.is(on) {
			return fmt.Sprintf("the kubelets, where %s is %s%s", d.InTree.Plugin, s.other(on), o.poolsDiffer(": "))
		}
	}
	return o.poolsDiffer("")
}

// poolsDiffer says which MachineConfigPool is not updated, or "".
func (o *observed) poolsDiffer(before string) string {
	for _, p := range o.pools {
		status := p.Status
		switch {
		case p.Spec.Paused:
			return fmt.Sprintf("%sMachineConfigPool %s is paused: `%s`", before, p.Name, escape.Command(`oc patch machineconfigpool %s --type=merge -p '{"spec":{"paused":false}}'`, p.Name))
		case status.DegradedMachineCount > 0:
			return fmt.Sprintf("%sMachineConfigPool %s is degraded%s", before, p.Name, o.nodeReasons())
		case status.ObservedGeneration != p.Generation || status.Configuration.Name != p.Spec.Configuration.Name ||
			status.UpdatedMachineCount != status.MachineCount || status.ReadyMachineCount != status.MachineCount:
			return fmt.Sprintf("%sMachineConfigPool %s: %d of %d nodes are updated, %d are ready", before, p.Name,
				status.UpdatedMachineCount, status.MachineCount, status.ReadyMachineCount)
		}
	}
	for _, n := range o.nodes {
		if n.config != n.desired {
			return fmt.Sprintf("%snode %s has MachineConfig %s, and is to get %s", before, n.name, n.config, n.desired)
		}
	}
	return ""
}

// nodeReasons returns the reason of a degraded node, starting with a colon; "" if no node has one.
func (o *observed) nodeReasons() string {
	for _, n := range o.nodes {
		if n.reason != "" {
			return fmt.Sprintf(": node %s: %s", n.name, n.reason)
		}
	}
	return ""
}

// driverDiffers says why volumes of some plugins could not be handed to their drivers, or "". Plugins that nobody uses need
// no driver.
func (o *observed) driverDiffers(of []drivers.Driver) string {
	for _, d := range of {
		state := o.drivers[d.Name]
		if !state.installed && len(o.volumes[d.Name]) == 0 {
			continue
		}
		if state.unavailable != "" {
			return fmt.Sprintf("driver %s: %s", d.CSIName, state.unavailable)
		}
		var without []string
		for _, n := range o.nodes {
			if !n.drivers.Has(d.CSIName) {
				without = append(without, n.name)
			}
		}
		if len(without) > 0 {
			return fmt.Sprintf("driver %s: it is not in the CSINode of %s", d.CSIName, shortList(without))
		}
	}
	return ""
}

// attachedBy returns the VolumeAttachments of drivers for volumes of some plugins.
func (o *observed) attachedBy(of []drivers.Driver) (found []attachment) {
	for _, a := range o.attachments {
		if slices.ContainsFunc(of, func(d drivers.Driver) bool { return d.Name == a.driver }) {
			found = append(found, a)
		}
	}
	return found
}

// Stranded is a volume that nothing detaches, now or after the next switch.
type Stranded struct {
	Volume string `json:"volume"`
	Node   string `json:"node"`
	Why    string `json:"why"`
	Do     string `json:"do"`
	// InTree says that the in-tree plugin has attached it, and not the driver.
	InTree bool `json:"inTree"`
}

// stranded returns the volumes of a plugin that a wrong order strands. The Attach/Detach controller uses the driver for a node if the node
// says that the plugin is migrated, and, unless the controller is patched, if its own gate is on. The controller does not detach volumes
// that were attached in the other way.
func (o *observed) stranded(d drivers.Driver) (found []Stranded) {
	controller := true
	for _, component := range o.operators {
		if component.component == attachDetach && !isPatched(o.version) {
			controller = component.standing(d, isMigrated(d, o.version), o.nodes).is(true)
		}
	}
	for _, n := range o.nodes {
		listed := n.migrated.Has(d.InTree.Plugin)
		for _, volume := range n.attached {
			if listed && strings.HasPrefix(volume, d.InTree.Plugin+"/") {
				found = append(found, Stranded{volume, n.name,
					fmt.Sprintf("the in-tree plugin has attached it, and the kubelet of the node is migrated to %s already, which cannot detach it", d.CSIName),
					"switch the nodes off again: `berth csi-migration disable`; the in-tree plugin then detaches it", true})
			}
		}
		for _, a := range o.attachments {
			if a.driver != d.Name || a.node != n.name || listed && controller {
				continue
			}
			why := "the kubelet of the node is not migrated"
			if listed {
				why = "the control plane is not migrated"
			}
			found = append(found, Stranded{a.volume, n.name,
				fmt.Sprintf("%s has attached it, by VolumeAttachment %s, and %s any more: the in-tree plugin cannot detach it", d.CSIName, a.name, why),
				fmt.Sprintf("switch back on: `berth csi-migration enable`; or, when no pod on the node uses the volume, `%s`: the driver then detaches it", escape.Command("kubectl delete volumeattachment %s", a.name)), false})
		}
	}
	return found
}

// wrongOrder says that nodes are migrated and the control plane is not, or "". The order makes no difference to an Attach/Detach
// controller that follows the nodes' reports.
func (o *observed) wrongOrder(d drivers.Driver) string {
	if isPatched(o.version) || len(o.nodeStanding(d).On) == 0 {
		return ""
	}
	for _, component := range o.operators {
		if s := component.standing(d, isMigrated(d, o.version), o.nodes); !s.is(true) {
			return fmt.Sprintf("%s is migrated on %s, but %s of %s is %s: the nodes have to follow the control plane",
				d.InTree.Plugin, shortList(o.nodeStanding(d).On), d.InTree.Gate, component.component, s.other(true))
		}
	}
	return ""
}
