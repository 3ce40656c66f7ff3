package drivers_test

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/berth-csi/berth/drivers"
)

// hostPort is a port of the nodes' network that a container of a driver uses.
type hostPort struct {
	port     int
	platform configv1.PlatformType // "" for any
	driver   string
	workload string
	// container is "" for containers of other operators' drivers.
	container string
	// declared says that the pod's spec has the port, so that the scheduler knows it.
	declared bool
}

func (p hostPort) String() string {
	declared := "declared"
	if !p.declared {
		declared = "on loopback only"
	}
	return strings.TrimRight(fmt.Sprintf("%5d  %-9s  %-9s  %-10s  %-30s  %s", p.port, cmp.Or(string(p.platform), "any"), p.driver, p.workload, p.container, declared), " ")
}

// sameNode says whether both ports can be needed on one node. Drivers of different platforms never meet.
func (p hostPort) sameNode(other hostPort) bool {
	return p.platform == "" || other.platform == "" || p.platform == other.platform
}

// ofOpenShift are the ports that OpenShift's own operator for a driver takes. A driver that moves from one operator to
// the other keeps them, and what OpenShift runs beside it was made to fit.
var ofOpenShift = []struct {
	driver, workload string
	ports            []int
}{
	{"azuredisk", "node", []int{9206, 10300, 10304}},
	{"azurefile", "node", []int{10302, 10305}},
	{"cinder", "node", []int{10300, 10304}},
	{"ebs", "node", []int{10300, 10309}},
	{"efs", "controller", []int{9212, 10302}},
	{"efs", "node", []int{10303, 10305}},
	{"gcppd", "controller", []int{9202, 9203, 9204, 9205, 10301}},
	{"gcppd", "node", []int{10300, 10303}},
	{"manila", "node", []int{10305, 10307}},
	{"vsphere", "node", []int{10300, 10302}},
}

// others are the drivers that OpenShift's catalog adds to a cluster, and that this repository does not have.
var others = []struct {
	platform         configv1.PlatformType
	driver, workload string
	ports            []int
}{
	{"", "smb", "node", []int{10306, 10308}},
	{configv1.GCPPlatformType, "filestore", "controller", []int{8212, 8214, 8215, 9212, 9214, 9215, 10313}},
	{configv1.GCPPlatformType, "filestore", "node", []int{10302, 10304}},
}

// onlyOn are the platforms of the drivers that OLM installs. A driver that is not here can be on any.
var onlyOn = map[string]configv1.PlatformType{"efs": configv1.AWSPlatformType}

// hostPorts returns the ports that the drivers' pods use on nodes, from their templates.
func hostPorts(t *testing.T) []hostPort {
	var table []hostPort
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		platform := onlyOn[d.Name]
		if d.ClusterStorage != nil {
			platform = d.ClusterStorage.Platform
		}
		for _, w := range workloads(t, manifests) {
			for _, c := range w.containers() {
				use := hostPort{platform: platform, driver: d.Name, workload: path.Dir(w.file), container: c.Name}
				declared := map[int]bool{}
				for _, p := range c.Ports {
					if !w.pod.Spec.HostNetwork && p.HostPort == 0 {
						continue
					}
					use.port, use.declared = int(cmp.Or(p.HostPort, p.ContainerPort)), true
					declared[use.port] = true
					table = append(table, use)
				}
				for _, l := range listeners(c) {
					port, err := strconv.Atoi(l.port)
					require.NoError(t, err)
					if w.pod.Spec.HostNetwork && !declared[port] && !declaredIn(w, port) {
						use.port, use.declared = port, false
						table = append(table, use)
					}
				}
			}
		}
	})
	slices.SortFunc(table, func(a, b hostPort) int { return strings.Compare(a.String(), b.String()) })
	return table
}

// declaredIn says whether another container of a pod declares a port, as the driver's container does for the server of
// its probe.
func declaredIn(w workload, port int) bool {
	for _, c := range w.containers() {
		for _, p := range c.Ports {
			if int(p.ContainerPort) == port {
				return true
			}
		}
	}
	return false
}

// TestHostPorts is about the table of host ports, testdata/ports.txt: pods that need a port which another pod of the node
// has stay Pending, or their containers do not start.
func TestHostPorts(t *testing.T) {
	table := hostPorts(t)
	var lines []string
	for _, p := range table {
		lines = append(lines, p.String())
	}
	compareWithGolden(t, filepath.Join("testdata", "ports.txt"), strings.Join(lines, "\n")+"\n")

	// https://github.com/openshift/enhancements/blob/master/dev-guide/host-port-registry.md gives these ranges to storage.
	// Ports on loopback alone have no range there; OpenShift's drivers have those from 8200 for the servers behind proxies.
	for _, p := range table {
		if p.declared && !within(p.port, 9200, 9219) && !within(p.port, 10300, 10313) || !p.declared && !within(p.port, 8200, 8219) {
			t.Errorf("%s: the port is not in the range that OpenShift's registry gives storage", p)
		}
	}

	for _, want := range ofOpenShift {
		for _, port := range want.ports {
			if !slices.ContainsFunc(table, func(p hostPort) bool {
				return p.driver == want.driver && p.workload == want.workload && p.port == port
			}) {
				t.Errorf("%s: %s does not use port %d, which it has in OpenShift", want.driver, want.workload, port)
			}
		}
	}

	for _, o := range others {
		for _, port := range o.ports {
			table = append(table, hostPort{platform: o.platform, driver: o.driver, workload: o.workload, port: port, declared: true})
		}
	}
	for i, p := range table {
		for _, other := range table[:i] {
			if p.port == other.port && p.sameNode(other) {
				t.Errorf("two pods of one node need port %d:\n%s\n%s", p.port, other, p)
			}
		}
	}
}

func within(port, first, last int) bool { return port >= first && port <= last }

// TestOneListenerForEachPort: the containers of a pod share its network.
func TestOneListenerForEachPort(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		for _, w := range workloads(t, manifests) {
			users := map[string]string{}
			for _, c := range w.containers() {
				for _, l := range listeners(c) {
					assert.Emptyf(t, users[l.port], "%s: container that listens on port %s, as %s does", w.file, l.port, c.Name)
					users[l.port] = c.Name
				}
			}
		}
	})
}

// TestHostPortsRollOut: new pods get the ports of the old ones, and other ports than those, in a rolling update that ends
// the old pod of a node before it starts the new one.
func TestHostPortsRollOut(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		for _, m := range drivers.OfKind(manifests, "Deployment") {
			deployment := as[appsv1.Deployment](t, m)
			if !deployment.Spec.Template.Spec.HostNetwork {
				continue
			}
			rolling := deployment.Spec.Strategy.RollingUpdate
			if rolling == nil || rolling.MaxSurge == nil || rolling.MaxSurge.String() != "0" || rolling.MaxUnavailable.String() == "0" {
				t.Errorf("%s: the strategy is %+v, want a rolling update without surge", m.File, deployment.Spec.Strategy)
			}
		}
		for _, m := range drivers.OfKind(manifests, "DaemonSet") {
			set := as[appsv1.DaemonSet](t, m)
			if strategy := set.Spec.UpdateStrategy; strategy.RollingUpdate == nil || strategy.RollingUpdate.MaxSurge != nil || strategy.Type != appsv1.RollingUpdateDaemonSetStrategyType {
				t.Errorf("%s: the update strategy is %+v, want a rolling update without surge", m.File, strategy)
			}
		}
	})
}
