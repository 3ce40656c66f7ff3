package csimigration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
)

// The codes of checks.
const (
	featureGate      = "feature-gate"
	controlPlaneKind = "control-plane-topology"
	lockedGates      = "locked-gates"
	chosenWay        = "way"
	allPlugins       = "all-plugins"
	irreversible     = "irreversible"
	clusterUpdate    = "cluster-update"
	driversRun       = "drivers"
	nodePools        = "machine-config-pools"
	revisions        = "revisions"
	order            = "order"
	downgradeTo      = "downgrade"
)

// choose decides which plugins are switched, and how.
func (o *observed) choose(p *Plan, r Request) migrate.Checks {
	if r.Direction == Downgrade {
		return o.chooseDowngrade(p, r)
	}
	var open []drivers.Driver
	var locked []string
	for _, d := range plugins() {
		switch {
		case len(r.Plugins) > 0 && !slices.Contains(r.Plugins, d.Name):
		case isMigrated(d, o.version):
			locked = append(locked, fmt.Sprintf("%s (from %s)", d.InTree.Gate, d.InTree.Migrated))
		default:
			open = append(open, d)
		}
	}
	var found migrate.Checks
	if len(locked) > 0 {
		what := fmt.Sprintf("version %s has these feature gates on for good, so their volumes are already migrated: %s", o.version, strings.Join(locked, ", "))
		if len(open) == 0 {
			what += "; nothing to switch"
		}
		if r.Direction == Disable && (len(open) == 0 || len(r.Plugins) > 0) {
			return migrate.Refuse(lockedGates, "leave the plugins migrated", "%s off", what)
		}
		found = migrate.Pass(lockedGates, "%s", what)
	}
	if len(open) == 0 {
		return append(found, o.checkMigrated(r)...)
	}
	if o.hosted {
		return append(found, refusedHosted()...)
	}
	return append(found, o.chooseWay(p, r, open)...)
}

// hostedElsewhere says that the control plane is not on nodes of the cluster, as with HyperShift.
const hostedElsewhere = "the control plane is not on nodes of this cluster (Infrastructure cluster: status.controlPlaneTopology is External)"

func refusedHosted() migrate.Checks {
	return migrate.Refuse(controlPlaneKind, "ask who hosts the control plane to switch it", "%s, so nothing shows how far it is", hostedElsewhere)
}

// checkMigrated warns of nodes that do not report plugins with locked gates as migrated, for example because of an old
// kubelet.
func (o *observed) checkMigrated(r Request) (found migrate.Checks) {
	for _, d := range plugins() {
		used := o.drivers[d.Name].installed || len(o.volumes[d.Name]) > 0
		if len(r.Plugins) > 0 && !slices.Contains(r.Plugins, d.Name) || !used {
			continue
		}
		if s := o.nodeStanding(d); !s.is(true) {
			found = append(found, migrate.Warn(order, "wait until the update of these nodes is done", "%s is %s according to the CSINodes", d.InTree.Plugin, s.other(true))...)
		}
	}
	return found
}

// chooseWay takes the first way that the cluster allows, or the requested way if the cluster allows it.
func (o *observed) chooseWay(p *Plan, r Request, open []drivers.Driver) migrate.Checks {
	var reasons []string
	for _, way := range Ways {
		if r.Way != "" && r.Way != way {
			continue
		}
		of := open
		if way == OneSet {
			of = slices.DeleteFunc(slices.Clone(open), func(d drivers.Driver) bool { return !isPreview(d, o.version) })
		}
		if why := o.whyNot(way, p, r, of); why != "" {
			reasons = append(reasons, fmt.Sprintf("%s: %s", way, why))
			continue
		}
		p.Way = way
		for _, d := range of {
			p.Plugins = append(p.Plugins, d.Name)
		}
		found := migrate.Pass(chosenWay, "the cluster is configured by %s", ways[way].does)
		if !ways[way].single {
			found = append(found, migrate.Pass(allPlugins, "a feature set switches all plugins at once: %s", strings.Join(p.Plugins, ", "))...)
		}
		return found
	}
	return migrate.Refuse(chosenWay, "leave CSI migration as it is; updates of the cluster switch it on in the right order", "there is no way to %s it: %s", r.Direction, strings.Join(reasons, "; "))
}

// whyNot says why a way cannot be taken, or "".
func (o *observed) whyNot(way Way, p *Plan, r Request, of []drivers.Driver) string {
	for _, set := range ways[way].sets {
		if !slices.Contains(o.featureSets, string(set)) {
			return fmt.Sprintf("the API server takes no feature set %s, only %q", set, o.featureSets)
		}
	}
	settings := append([]configv1.FeatureSet{p.Off}, ways[way].sets...)
	switch {
	case !slices.Contains(settings, p.Before) || way != Custom && p.Off != configv1.Default:
		return fmt.Sprintf("spec.featureSet of FeatureGate cluster is %s, and cannot be changed to that", p.Before)
	case len(r.Plugins) > 0 && !ways[way].single:
		return "it switches all plugins"
	case way == OneSet && r.Direction == Disable:
		return fmt.Sprintf("feature set %s cannot be left", ways[way].sets[0])
	case way == OneSet && !isPatched(o.version):
		return fmt.Sprintf("it switches control plane and nodes at once, and the Attach/Detach controller ignores the nodes' reports before version %s", patchedSince)
	case len(of) == 0:
		return fmt.Sprintf("the feature set has none of the gates in version %s", o.version)
	case way == Custom && r.Direction == Disable && !isPatched(o.version):
		return fmt.Sprintf("the list of gates switches control plane and nodes at once, and the nodes have to be off first; the Attach/Detach controller ignores the nodes' reports before version %s", patchedSince)
	}
	return ""
}

// chooseDowngrade decides whether the nodes have to be kept migrated for a downgrade. The control plane is downgraded first.
func (o *observed) chooseDowngrade(p *Plan, r Request) migrate.Checks {
	to, err := semver.Parse(r.To)
	if err != nil || !to.LT(o.version) {
		return migrate.Refuse(downgradeTo, "name an earlier version, as in 4.11.0", "%q is not a version before %s", r.To, o.version)
	}
	var names, gates []string
	for _, d := range plugins() {
		if isMigrated(d, o.version) && !isMigrated(d, to) {
			names, gates = append(names, d.Name), append(gates, d.InTree.Gate)
		}
	}
	switch {
	case len(names) == 0:
		return migrate.Pass(downgradeTo, "nothing is needed for a downgrade from %s to %s: no feature gate of CSI migration that is on for good is switchable there", o.version, to)
	case isPatched(to):
		return migrate.Pass(downgradeTo, "nothing is needed for a downgrade from %s to %s: its Attach/Detach controller uses the nodes' reports, so the order makes no difference, though it has %s off", o.version, to, strings.Join(gates, ", "))
	case o.hosted:
		return refusedHosted()
	case !slices.Contains(o.featureSets, string(nodeSet)):
		return migrate.Refuse(downgradeTo, "do not downgrade while volumes of these plugins are attached: the control plane is downgraded first, and could not detach them any more",
			"version %s has %s off, and the API server takes no feature set %s, only %q", to, strings.Join(gates, ", "), nodeSet, o.featureSets)
	case p.Before != configv1.Default && p.Before != nodeSet:
		return migrate.Refuse(downgradeTo, "leave that feature set first, if the API server lets you", "spec.featureSet of FeatureGate cluster is %s, want %q or %s", p.Before, configv1.Default, nodeSet)
	}
	p.Way, p.Plugins = TwoSets, names
	return migrate.Pass(downgradeTo, "version %s has %s off, and its control plane is downgraded before the nodes: feature set %s has to be set before", to, strings.Join(gates, ", "), nodeSet)
}

// checks evaluates the checks of a plan whose way is chosen.
func (s *state) checks(r Request) (found migrate.Checks) {
	if ways[s.plan.Way].noReturn {
		found = append(found, s.checkReturn()...)
	}
	found = append(found, s.checkUpdate()...)
	if r.Direction == Downgrade {
		return found
	}
	for _, check := range []func() migrate.Checks{s.checkDrivers, s.checkPools, s.checkRevisions, s.checkOrder} {
		found = append(found, check()...)
	}
	return found
}

func (s *state) checkReturn() migrate.Checks {
	set := ways[s.plan.Way].sets[0]
	if s.plan.isListed() {
		return migrate.Pass(irreversible, "feature set %s is set already", set)
	}
	what := fmt.Sprintf("feature set %s cannot be left once it is set, and prevents updates of the cluster to other minor versions, for ever", set)
	if s.plan.Way == OneSet || s.plan.PausesPools {
		what += "; CSI migration cannot be switched off any more"
	}
	return migrate.Warn(irreversible, "consider waiting for a version that has CSI migration on; if that is no choice, `enable` asks, and takes --accept-irreversible", "%s", what)
}

func (s *state) checkUpdate() migrate.Checks {
	if s.updating {
		return migrate.Refuse(clusterUpdate, "wait until `oc get clusterversion` shows that it is done", "the cluster is being updated to version %s", s.version)
	}
	return migrate.Pass(clusterUpdate, "the cluster is not being updated")
}

func (s *state) checkDrivers() migrate.Checks {
	if missing := s.driverDiffers(s.of()); missing != "" {
		return migrate.Refuse(driversRun, "find out why the driver does not run there: `oc get clustercsidrivers`, `oc get pods -n openshift-cluster-csi-drivers`", "%s", missing)
	}
	var used, unused []string
	for _, d := range s.of() {
		if s.drivers[d.Name].installed {
			used = append(used, d.CSIName)
		} else {
			unused = append(unused, d.InTree.Plugin)
		}
	}
	what := fmt.Sprintf("available, and in every CSINode: %s", strings.Join(used, ", "))
	if len(used) == 0 {
		what = "no driver is needed"
	}
	if len(unused) > 0 {
		what += fmt.Sprintf("; without driver and volumes: %s", strings.Join(unused, ", "))
	}
	return migrate.Pass(driversRun, "%s", what)
}

func (s *state) checkPools() migrate.Checks {
	if len(s.pools) == 0 {
		return migrate.Refuse(nodePools, "use this command on a cluster whose nodes the machine-config operator manages", "there are no MachineConfigPools, so nobody would drain and restart the nodes")
	}
	differs := s.poolsDiffer("")
	switch {
	case differs == "":
		return migrate.Pass(nodePools, "all MachineConfigPools are updated, and none is paused")
	case s.plan.Direction == Disable: // switching off may be the way out of a wrong order, and waits for the pools
		return migrate.Warn(nodePools, "nothing: the command waits for it", "%s", differs)
	}
	return migrate.Refuse(nodePools, "wait until it is updated; unpause it if it is paused, and find out why if it is degraded: `oc describe machineconfigpool`", "%s", differs)
}

func (s *state) checkRevisions() (found migrate.Checks) {
	for _, component := range s.operators {
		if !component.found || len(component.nodes) == 0 {
			return migrate.Refuse(revisions, "find out why its operator does not run", "%s cluster reports no node: nothing shows which revision %s has", component.kind, component.component)
		}
		if moving := component.rollout(); moving != "" {
			if s.plan.Direction == Disable {
				found = append(found, migrate.Warn(revisions, "nothing: the command waits for it", "%s%s", component.component, moving)...)
				continue
			}
			return migrate.Refuse(revisions, fmt.Sprintf("wait until the revision is on all nodes; if it has failed, find out why: `%s`", escape.Command("oc get %s cluster -o yaml", strings.ToLower(component.kind))), "%s%s", component.component, moving)
		}
	}
	if len(found) > 0 {
		return found
	}
	return migrate.Pass(revisions, "every component of the control plane has its latest revision on all nodes")
}

// checkOrder refuses a switch that would strand volumes, because something has switched in another order than this
// command.
func (s *state) checkOrder() (found migrate.Checks) {
	for _, d := range s.of() {
		for _, volume := range s.stranded(d) {
			if volume.InTree == (s.plan.Direction == Enable) {
				found = append(found, migrate.Refuse(order, volume.Do, "volume %s on node %s: %s", volume.Volume, volume.Node, volume.Why)...)
			} else {
				found = append(found, migrate.Warn(order, "go on: this is the way out", "volume %s on node %s: %s", volume.Volume, volume.Node, volume.Why)...)
			}
		}
		if wrong := s.wrongOrder(d); wrong != "" && len(found) == 0 {
			found = append(found, migrate.Warn(order, "go on: no volume is stranded yet", "%s", wrong)...)
		}
	}
	if len(found) == 0 {
		return migrate.Pass(order, "no volume is stranded by a wrong order")
	}
	return found
}
