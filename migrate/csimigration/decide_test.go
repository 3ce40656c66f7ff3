package csimigration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/migrate"
)

// serverSets are the feature sets that today's API server takes, and proposed adds the proposal's.
var (
	serverSets = []string{"CustomNoUpgrade", "DevPreviewNoUpgrade", "TechPreviewNoUpgrade", "OKD", ""}
	proposed   = append(slices.Clone(serverSets), string(controlPlaneSet), string(nodeSet))
)

// newObserved is a settled cluster with three nodes of the control plane and two workers, all off, with the EBS driver and
// a volume.
func newObserved(version string) *observed {
	o := &observed{
		featureGate: &configv1.FeatureGate{ObjectMeta: metav1.ObjectMeta{Name: "cluster", UID: "uid"}}, featureSets: proposed,
		version: semver.MustParse(version), drivers: map[string]driverState{"ebs": {installed: true}}, volumes: map[string][]string{"ebs": {"pv"}},
	}
	for _, name := range []string{"m0", "m1", "m2", "w0", "w1"} {
		o.nodes = append(o.nodes, node{name: name, controlPlane: name[0] == 'm', ready: true, hasCSINode: true, migrated: sets.New[string](), drivers: sets.New(ebs.Driver.CSIName)})
	}
	for _, component := range controlPlane {
		made := operator{staticPod: component, found: true, latest: 4, gates: map[int32]map[string]bool{4: {}}}
		for _, n := range o.nodes[:3] {
			made.nodes = append(made.nodes, operatorv1.NodeStatus{NodeName: n.name, CurrentRevision: 4})
		}
		o.operators = append(o.operators, made)
	}
	for name, count := range map[string]int32{"master": 3, "worker": 2} {
		o.pools = append(o.pools, mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: mcfgv1.MachineConfigPoolStatus{MachineCount: count, UpdatedMachineCount: count, ReadyMachineCount: count}})
	}
	return o
}

// controlPlaneOn rolls a revision with all gates out.
func (o *observed) controlPlaneOn() {
	for i := range o.operators {
		gates := map[string]bool{generalGate: true}
		for _, d := range plugins() {
			gates[d.InTree.Gate] = true
		}
		o.operators[i].latest, o.operators[i].gates[5] = 5, gates
		for j := range o.operators[i].nodes {
			o.operators[i].nodes[j].CurrentRevision = 5
		}
	}
}

// nodesOn migrates nodes.
func (o *observed) nodesOn(names ...string) {
	for _, n := range o.nodes {
		for _, d := range plugins() {
			if len(names) == 0 || slices.Contains(names, n.name) {
				n.migrated.Insert(d.InTree.Plugin)
			}
		}
	}
}

func (o *observed) attach() {
	o.attachments = []attachment{{"csi-1", "ebs", "pv", "w0"}}
}

// TestDecision: the next step follows from the observed state alone.
func TestDecision(t *testing.T) {
	t.Parallel()
	set := func(s configv1.FeatureSet) func(*observed) {
		return func(o *observed) { o.featureGate.Spec.FeatureSet = s }
	}
	on, all := (*observed).controlPlaneOn, func(o *observed) { o.nodesOn() }
	for _, tc := range []struct {
		name      string
		direction Direction
		way       Way
		version   string
		change    []func(*observed)
		step      migrate.StepName
		waits     string
	}{
		{name: "begin", direction: Enable, way: TwoSets, step: EnableControlPlane},
		{name: "a paused pool", direction: Enable, way: TwoSets, change: []func(*observed){func(o *observed) { o.pools[0].Spec.Paused = true }}, step: EnableControlPlane, waits: "is paused"},
		{name: "a node without the driver", direction: Enable, way: TwoSets, change: []func(*observed){func(o *observed) { o.nodes[4].drivers.Clear() }}, step: EnableControlPlane, waits: "not in the CSINode of w1"},
		{name: "no revision yet", direction: Enable, way: TwoSets, change: []func(*observed){set(controlPlaneSet)}, step: AwaitControlPlane, waits: "CSIMigrationAzureDisk is off on m0, m1, m2"},
		{name: "one node of one component has the old revision", direction: Enable, way: TwoSets,
			change: []func(*observed){set(controlPlaneSet), on, func(o *observed) { o.operators[2].nodes[1].CurrentRevision = 4 }}, step: AwaitControlPlane, waits: "revision 5 is not on m1 yet, which has 4"},
		{name: "a failing revision", direction: Enable, way: TwoSets,
			change: []func(*observed){set(controlPlaneSet), on, func(o *observed) {
				n := &o.operators[1].nodes[0]
				n.CurrentRevision, n.LastFailedRevision, n.LastFailedReason, n.LastFailedRevisionErrors = 4, 5, "InstallerFailed", []string{"no space"}
			}}, step: AwaitControlPlane, waits: "revision 5 has failed on m0: InstallerFailed no space"},
		{name: "a node of the control plane that nobody reports", direction: Enable, way: TwoSets,
			change: []func(*observed){set(controlPlaneSet), on, func(o *observed) { o.operators[0].nodes = o.operators[0].nodes[:2] }}, step: AwaitControlPlane, waits: "unknown on m2"},
		{name: "a revision that nothing shows", direction: Enable, way: TwoSets,
			change: []func(*observed){set(controlPlaneSet), on, func(o *observed) { delete(o.operators[0].gates, 5) }}, step: AwaitControlPlane, waits: "there is no ConfigMap config-5 in openshift-kube-apiserver"},
		{name: "a latest revision that is not rolled out yet", direction: Enable, way: TwoSets,
			change: []func(*observed){set(controlPlaneSet), on, func(o *observed) { o.operators[0].latest = 6 }}, step: AwaitControlPlane, waits: "revision 6 is not on m0"},
		{name: "the general gate is off", direction: Enable, way: TwoSets,
			change: []func(*observed){set(controlPlaneSet), on, func(o *observed) { o.operators[0].gates[5][generalGate] = false }}, step: AwaitControlPlane, waits: "off on m0"},
		{name: "control plane on", direction: Enable, way: TwoSets, change: []func(*observed){set(controlPlaneSet), on}, step: EnableNodes},
		{name: "control plane on, driver lost", direction: Enable, way: TwoSets, change: []func(*observed){set(controlPlaneSet), on, func(o *observed) { o.drivers["ebs"] = driverState{true, "it is gone"} }},
			step: EnableNodes, waits: "it is gone"},
		{name: "control plane on, pool degraded", direction: Enable, way: TwoSets, change: []func(*observed){set(controlPlaneSet), on, func(o *observed) { o.pools[0].Status.DegradedMachineCount = 1 }}, step: EnableNodes, waits: "is degraded"},
		{name: "nodes not restarted", direction: Enable, way: TwoSets, change: []func(*observed){set(nodeSet), on}, step: AwaitNodes, waits: "off on m0, m1, m2, w0, w1"},
		{name: "a node that joins", direction: Enable, way: TwoSets, change: []func(*observed){set(nodeSet), on, all, func(o *observed) { o.nodes = append(o.nodes, node{name: "w2"}) }}, step: AwaitNodes, waits: "w2 (there is no CSINode)"},
		{name: "done", direction: Enable, way: TwoSets, change: []func(*observed){set(nodeSet), on, all}},
		{name: "off: begin", direction: Disable, way: TwoSets, change: []func(*observed){set(nodeSet), on, all}, step: DisableNodes},
		{name: "off: a node left", direction: Disable, way: TwoSets, change: []func(*observed){set(controlPlaneSet), on, func(o *observed) { o.nodesOn("w1") }}, step: AwaitNodesOff, waits: "on on w1"},
		{name: "off: attached", direction: Disable, way: TwoSets, change: []func(*observed){set(controlPlaneSet), on, (*observed).attach}, step: AwaitDetach, waits: "VolumeAttachment csi-1"},
		{name: "off: control plane", direction: Disable, way: TwoSets, change: []func(*observed){set(controlPlaneSet), on}, step: DisableControlPlane},
		{name: "off: control plane not off", direction: Disable, way: TwoSets, change: []func(*observed){on}, step: AwaitControlPlaneOff, waits: "on on m0, m1, m2"},
		{name: "off: done", direction: Disable, way: TwoSets},
		{name: "one set", direction: Enable, way: OneSet, version: "4.10.3", step: EnableGates},
		{name: "one set: control plane", direction: Enable, way: OneSet, version: "4.10.3", change: []func(*observed){set(configv1.TechPreviewNoUpgrade)}, step: AwaitControlPlane, waits: "is off on"},
		{name: "gates: pause first", direction: Enable, way: Custom, step: PausePools},
		{name: "gates: then the gates", direction: Enable, way: Custom, change: []func(*observed){(*observed).pause}, step: EnableGates},
		{name: "gates: a pool was unpaused too early", direction: Enable, way: Custom, change: []func(*observed){(*observed).list}, step: PausePools},
		{name: "gates: control plane", direction: Enable, way: Custom, change: []func(*observed){(*observed).pause, (*observed).list}, step: AwaitControlPlane, waits: "off on m0"},
		{name: "gates: unpause", direction: Enable, way: Custom, change: []func(*observed){(*observed).pause, (*observed).list, on}, step: UnpausePools},
		{name: "gates: nodes", direction: Enable, way: Custom, change: []func(*observed){(*observed).list, on}, step: AwaitNodes, waits: "off on"},
		{name: "gates, patched: no pause", direction: Enable, way: Custom, version: "4.10.0", step: EnableGates},
		{name: "gates off", direction: Disable, way: Custom, version: "4.10.0", change: []func(*observed){(*observed).list, on, all}, step: DisableGates},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.version == "" {
				tc.version = "4.7.0"
			}
			o := newObserved(tc.version)
			for _, change := range tc.change {
				change(o)
			}
			p := &Plan{Direction: tc.direction, Way: tc.way, Version: tc.version, Plugins: Drivers(), PausesPools: tc.way == Custom && !isPatched(o.version), Outline: migrate.Outline{Subject: migrate.Subject{Name: "cluster", UID: "uid"}}}
			s := &state{observed: o, plan: p, journal: &migrate.Journal{}}
			require.NoError(t, s.Verify())
			next, err := s.Next()
			if err != nil || next.Step != tc.step || (next.Waits != "") != (tc.waits != "") || !strings.Contains(next.Waits, tc.waits) {
				t.Errorf("the next step is %q, which waits for %q, %v; want %q, which waits for %q", next.Step, next.Waits, err, tc.step, tc.waits)
			}
			if next.Step != "" && p.Does(next.Step) == "" {
				t.Errorf("step %s has no description", next.Step)
			}
		})
	}
}

func (o *observed) pause() {
	for i := range o.pools {
		o.pools[i].Spec.Paused, o.pools[i].Annotations = true, map[string]string{pausedAnnotation: "true"}
	}
}

func (o *observed) list() {
	spec := &o.featureGate.Spec
	spec.FeatureSet, spec.CustomNoUpgrade = configv1.CustomNoUpgrade, &configv1.CustomFeatureGates{Enabled: []configv1.FeatureGateName{generalGate}}
	for _, d := range plugins() {
		spec.CustomNoUpgrade.Enabled = append(spec.CustomNoUpgrade.Enabled, configv1.FeatureGateName(d.InTree.Gate))
	}
}

// TestPlan: the way, the plugins and the refusals of a plan.
func TestPlan(t *testing.T) {
	t.Parallel()
	all := "azuredisk azurefile cinder ebs gcppd vsphere"
	for _, tc := range []struct {
		name    string
		version string
		sets    []string
		request Request
		change  func(*observed)
		way     Way
		plugins string
		refused string // text of the check that refuses; "" if the plan is safe
		says    string
	}{
		{name: "proposal", version: "4.7.0", sets: proposed, request: Request{Direction: Enable}, way: TwoSets, plugins: all, says: "switches all plugins at once"},
		{name: "preview of 4.8", version: "4.8.2", sets: serverSets, request: Request{Direction: Enable}, way: OneSet, plugins: "cinder ebs", says: "cannot be left once it is set"},
		{name: "preview of 4.10", version: "4.10.0", sets: serverSets, request: Request{Direction: Enable}, way: OneSet, plugins: all},
		{name: "a candidate counts as its version", version: "4.10.0-rc.1", sets: serverSets, request: Request{Direction: Enable}, way: OneSet, plugins: all},
		{name: "some are locked", version: "4.11.0", sets: serverSets, request: Request{Direction: Enable}, way: OneSet, plugins: "azurefile ebs gcppd vsphere", says: "CSIMigrationOpenStack (from 4.11.0)"},
		{name: "a single plugin", version: "4.10.0", sets: serverSets, request: Request{Direction: Enable, Plugins: []string{"ebs"}}, way: Custom, plugins: "ebs"},
		{name: "unpatched", version: "4.7.0", sets: serverSets, request: Request{Direction: Enable}, way: Custom, plugins: all, says: "CSI migration cannot be switched off any more"},
		{name: "all locked", version: "4.22.0", sets: serverSets, request: Request{Direction: Enable}, says: "already migrated", change: func(o *observed) { o.nodesOn() }},
		{name: "all locked: off", version: "4.22.0", sets: serverSets, request: Request{Direction: Disable}, refused: "already migrated"},
		{name: "no set and no gates", version: "4.10.0", sets: []string{""}, request: Request{Direction: Enable}, refused: "takes no feature set CustomNoUpgrade"},
		{name: "off from the preview", version: "4.10.0", sets: serverSets, request: Request{Direction: Disable},
			change: func(o *observed) { o.featureGate.Spec.FeatureSet = configv1.TechPreviewNoUpgrade }, refused: "cannot be left"},
		{name: "off from gates, unpatched", version: "4.7.0", sets: serverSets, request: Request{Direction: Disable}, change: (*observed).list, refused: "the nodes have to be off first"},
		{name: "off from gates, patched", version: "4.10.0", sets: serverSets, request: Request{Direction: Disable}, change: func(o *observed) { o.list(); o.controlPlaneOn(); o.nodesOn() }, way: Custom, plugins: all},
		{name: "a requested way", version: "4.10.0", sets: proposed, request: Request{Direction: Enable, Way: OneSet}, way: OneSet, plugins: all},
		{name: "hosted", version: "4.10.0", sets: proposed, request: Request{Direction: Enable}, change: func(o *observed) { o.hosted = true }, refused: "External"},
		{name: "hosted, all locked", version: "4.22.0", sets: serverSets, request: Request{Direction: Enable}, change: func(o *observed) { o.hosted = true; o.nodesOn() }, says: "already migrated"},
		{name: "hosted, all locked: off", version: "4.22.0", sets: serverSets, request: Request{Direction: Disable}, change: func(o *observed) { o.hosted = true }, refused: "nothing to switch"},
		{name: "updating", version: "4.7.0", sets: proposed, request: Request{Direction: Enable}, change: func(o *observed) { o.updating = true }, way: TwoSets, plugins: all, refused: "being updated"},
		{name: "no driver", version: "4.7.0", sets: proposed, request: Request{Direction: Enable}, change: func(o *observed) { o.drivers["ebs"] = driverState{unavailable: "there is no CSIDriver"} }, way: TwoSets, plugins: all, refused: "there is no CSIDriver"},
		{name: "a node without the driver", version: "4.7.0", sets: proposed, request: Request{Direction: Enable}, change: func(o *observed) { o.nodes[3].drivers.Clear() }, way: TwoSets, plugins: all, refused: "CSINode of w0"},
		{name: "a paused pool", version: "4.7.0", sets: proposed, request: Request{Direction: Enable}, change: func(o *observed) { o.pools[1].Spec.Paused = true }, way: TwoSets, plugins: all, refused: "is paused"},
		{name: "a revision rolls out", version: "4.7.0", sets: proposed, request: Request{Direction: Enable}, change: func(o *observed) { o.operators[0].latest = 5 }, way: TwoSets, plugins: all, refused: "revision 5 is not on m0"},
		{name: "nodes on first, volume attached in-tree", version: "4.7.0", sets: proposed, request: Request{Direction: Enable},
			change: func(o *observed) {
				o.nodesOn("w0")
				o.nodes[3].attached = []string{ebs.Driver.InTree.Plugin + "/vol-1"}
			}, way: TwoSets, plugins: all, refused: "which cannot detach it"},
		{name: "nodes on first, way out", version: "4.7.0", sets: proposed, request: Request{Direction: Disable},
			change: func(o *observed) {
				o.nodesOn("w0")
				o.nodes[3].attached = []string{ebs.Driver.InTree.Plugin + "/vol-1"}
			}, way: TwoSets, plugins: all, says: "this is the way out"},
		{name: "control plane off first", version: "4.7.0", sets: proposed, request: Request{Direction: Disable},
			change: func(o *observed) { o.nodesOn(); o.attach() }, way: TwoSets, plugins: all, refused: "the control plane is not migrated any more"},
		{name: "control plane off first, way out", version: "4.7.0", sets: proposed, request: Request{Direction: Enable},
			change: func(o *observed) { o.nodesOn(); o.attach() }, way: TwoSets, plugins: all, says: "this is the way out"},
		{name: "downgrade", version: "4.13.0", sets: proposed, request: Request{Direction: Downgrade, To: "4.7.0"}, way: TwoSets, plugins: all, says: "has to be set before"},
		{name: "downgrade to a patched version", version: "4.13.0", sets: proposed, request: Request{Direction: Downgrade, To: "4.11.0"}, says: "the order makes no difference"},
		{name: "downgrade, all locked there", version: "4.14.0", sets: proposed, request: Request{Direction: Downgrade, To: "4.13.0"}, says: "nothing is needed"},
		{name: "downgrade without the set", version: "4.13.0", sets: serverSets, request: Request{Direction: Downgrade, To: "4.7.0"}, refused: "takes no feature set CSIMigrationNode"},
		{name: "downgrade, hosted", version: "4.13.0", sets: proposed, request: Request{Direction: Downgrade, To: "4.7.0"}, change: func(o *observed) { o.hosted = true }, refused: "External"},
		{name: "downgrade, hosted, nothing needed", version: "4.14.0", sets: proposed, request: Request{Direction: Downgrade, To: "4.13.0"}, change: func(o *observed) { o.hosted = true }, says: "nothing is needed"},
		{name: "downgrade upwards", version: "4.13.0", sets: proposed, request: Request{Direction: Downgrade, To: "4.14.0"}, refused: "is not a version before"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newObserved(tc.version)
			o.featureSets = tc.sets
			if tc.change != nil {
				tc.change(o)
			}
			p := o.plan(tc.request)
			if p.Way != tc.way || strings.Join(p.Plugins, " ") != tc.plugins {
				t.Errorf("way %q, plugins %q; want %q, %q", p.Way, p.Plugins, tc.way, tc.plugins)
			}
			var refusals, says []string
			for _, c := range p.Checks {
				says = append(says, c.What+" "+c.Do)
				if c.Verdict == findings.Refused {
					refusals = append(refusals, c.What)
				}
				if c.Verdict == findings.Refused && c.Do == "" {
					t.Errorf("check %s refuses and does not say what helps", c.Code)
				}
			}
			if got := strings.Join(refusals, "\n"); (got != "") != (tc.refused != "") || !strings.Contains(got, tc.refused) {
				t.Errorf("refused: %q, want %q", got, tc.refused)
			}
			assert.Contains(t, strings.Join(says, "\n"), tc.says, "the checks say")
		})
	}
}

// TestStanding: a feature gate that no revision lists is off, or on if the version has it on for good.
func TestStanding(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"4.10.0": "off", "4.12.0": "on"} {
		for _, s := range newObserved(version).standings(ebs.Driver)[:3] {
			assert.Equalf(t, want, s.String(), "version %s: %s", version, s.Component)
		}
	}
}

// TestHosted: no object of a cluster shows where a control plane stands that is hosted elsewhere. That is said, and is safe
// only if the version has all gates on for good.
func TestHosted(t *testing.T) {
	t.Parallel()
	for version, safe := range map[string]bool{"4.12.0": false, "4.22.0": true} {
		o := newObserved(version)
		o.hosted, o.operators, o.pools = true, nil, nil
		o.nodesOn()
		report := o.overview()
		if text := report.Text(findings.Plain); report.Safe != safe || !report.Hosted || !strings.Contains(text, "the control plane is not on nodes of this cluster") {
			t.Errorf("version %s: safe %t, want %t, and why:\n%s", version, report.Safe, safe, text)
		}
	}
}

// TestNothingToSwitch: where gates are on for good, one line says so. No component is listed, even if the state of its
// nodes is known.
func TestNothingToSwitch(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"4.11.0": "There is nothing to switch for kubernetes.io/azure-disk, kubernetes.io/cinder: version 4.11.0 has their feature gates on for good.\n",
		"4.23.1": "There is nothing to switch: version 4.23.1 has all feature gates of CSI migration on for good, so CSI drivers serve the volumes of all in-tree plugins.\n",
		"5.0.0":  "CSI migration of the cluster, version 5.0.0, feature set \"\"\n\nThere is nothing to switch: version 5.0.0 has all feature gates of CSI migration on for good, so CSI drivers serve the volumes of all in-tree plugins.\n",
	} {
		o := newObserved(version)
		for i := range o.nodes {
			o.nodes[i].hasCSINode = false // as on a cluster without a driver
		}
		report := o.overview()
		text := report.Text(findings.Plain)
		if !report.Safe || !strings.Contains(text, want) || version != "4.11.0" && (strings.Contains(text, "unknown") || strings.Contains(text, "safe to go on")) {
			t.Errorf("safe %t, and it says\n%swant\n%s", report.Safe, text, want)
		}
	}
	s := Standing{Unknown: []string{"a (no CSINode)", "b (no CSINode)"}}
	assert.Equal(t, "unknown", s.String())
	s.On = []string{"c"}
	assert.Equal(t, "1 of 3 nodes on, 2 of 3 nodes unknown", s.String())
}

// TestPatched: an Attach/Detach controller that follows the nodes' reports strands only volumes that no node reports.
func TestPatched(t *testing.T) {
	t.Parallel()
	o := newObserved("4.10.0")
	o.nodesOn()
	o.attach()
	if found := o.stranded(ebs.Driver); len(found) > 0 || o.wrongOrder(ebs.Driver) != "" {
		t.Errorf("stranded %v, wrong order %q; want nothing", found, o.wrongOrder(ebs.Driver))
	}
	o.nodes[3].migrated.Clear()
	if found := o.stranded(ebs.Driver); len(found) != 1 || found[0].Node != "w0" || found[0].InTree {
		t.Errorf("stranded %v, want the volume on w0", found)
	}
}

// TestSevenGates: there are seven gates and six plugins.
func TestSevenGates(t *testing.T) {
	t.Parallel()
	gates := []string{generalGate}
	for _, d := range plugins() {
		gates = append(gates, d.InTree.Gate)
	}
	want := "[CSIMigration CSIMigrationAzureDisk CSIMigrationAzureFile CSIMigrationOpenStack CSIMigrationAWS CSIMigrationGCE CSIMigrationvSphere]"
	assert.Equal(t, want, fmt.Sprint(gates), "gates")
}
