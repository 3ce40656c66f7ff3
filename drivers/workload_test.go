package drivers_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
)

// workload is a Deployment or a DaemonSet.
type workload struct {
	kind, file  string
	raw         string
	annotations map[string]string
	selector    *metav1.LabelSelector
	pod         corev1.PodTemplateSpec
}

func workloads(t *testing.T, manifests []drivers.Manifest) []workload {
	t.Helper()
	var found []workload
	for _, m := range drivers.OfKind(manifests, "Deployment") {
		d := as[appsv1.Deployment](t, m)
		found = append(found, workload{"Deployment", m.File, string(m.YAML), d.Annotations, d.Spec.Selector, d.Spec.Template})
	}
	for _, m := range drivers.OfKind(manifests, "DaemonSet") {
		d := as[appsv1.DaemonSet](t, m)
		found = append(found, workload{"DaemonSet", m.File, string(m.YAML), d.Annotations, d.Spec.Selector, d.Spec.Template})
	}
	return found
}

func (w workload) containers() []corev1.Container {
	return slices.Concat(w.pod.Spec.InitContainers, w.pod.Spec.Containers)
}

func TestImages(t *testing.T) {
	pullSpec := regexp.MustCompile(`^[a-z0-9.-]+/[a-z0-9./-]+(:v?[0-9][0-9a-z.]*|@sha256:[0-9a-f]{64})$`)
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		used := map[string]bool{}
		for _, w := range workloads(t, manifests) {
			for _, c := range w.containers() {
				used[c.Image] = true
				assert.EqualValuesf(t, corev1.PullIfNotPresent, c.ImagePullPolicy, "%s: container %s has imagePullPolicy", w.file, c.Name)
			}
		}
		for _, image := range d.Images {
			assert.Truef(t, used[imageOf(image.Env)], "image %s is declared, but no container uses it", image.Env)
			delete(used, imageOf(image.Env))
			assert.Regexpf(t, pullSpec, image.Default, "default of image %s, want a repository with a version or a digest", image.Env)
		}
		for image := range used {
			t.Errorf("a container has the image %s, want a placeholder that is declared in Images", image)
		}
		assert.Regexp(t, pullSpec, d.Operator.Image, "the operator's image, want a repository with a version or a digest")
	})
}

func TestContainers(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		for _, w := range workloads(t, manifests) {
			for _, c := range w.containers() {
				for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
					if requested, ok := c.Resources.Requests[resource]; !ok || requested.IsZero() {
						t.Errorf("%s: container %s requests no %s", w.file, c.Name, resource)
					}
				}
				assert.Equalf(t, corev1.TerminationMessageFallbackToLogsOnError, c.TerminationMessagePolicy, "%s: terminationMessagePolicy of container %s", w.file, c.Name)
				for _, problem := range openDoors(c.SecurityContext) {
					t.Errorf("%s: container %s: %s", w.file, c.Name, problem)
				}
			}
			assert.NotEmptyf(t, w.pod.Spec.PriorityClassName, "%s: priorityClassName", w.file)
			assert.NotEmptyf(t, w.pod.Annotations["openshift.io/required-scc"], "%s: annotation openshift.io/required-scc of its pods, for which others may be chosen without", w.file)
			assert.NotEmptyf(t, w.pod.Annotations["target.workload.openshift.io/management"], "%s: annotation target.workload.openshift.io/management of its pods", w.file)
		}
	})
}

// TestLogLevelReachesPods: an administrator sets one log level for a driver. Every workload rolls when it changes.
func TestLogLevelReachesPods(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		for _, w := range workloads(t, manifests) {
			if !slices.ContainsFunc(w.containers(), func(c corev1.Container) bool { return slices.Contains(c.Args, "--v=${LOG_LEVEL}") }) {
				t.Errorf("%s: no container has the argument --v=${LOG_LEVEL}", w.file)
			}
		}
	})
}

// openDoors returns the privileges that a container has without requesting them. A privileged container may do
// anything; it can still have a read-only root.
func openDoors(sc *corev1.SecurityContext) []string {
	if sc == nil {
		return []string{"has no securityContext"}
	}
	var problems []string
	if sc.ReadOnlyRootFilesystem == nil {
		problems = append(problems, "does not set readOnlyRootFilesystem")
	}
	if sc.Privileged != nil && *sc.Privileged {
		return problems
	}
	if sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation {
		problems = append(problems, "may escalate its privileges")
	}
	if sc.Capabilities == nil || !slices.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(sc.Capabilities.Add) > 0 {
		problems = append(problems, "does not drop all capabilities")
	}
	return problems
}

// TestExceptionsAreExplained: each line that adds a privilege has a comment above it.
func TestExceptionsAreExplained(t *testing.T) {
	door := regexp.MustCompile(`^\s*(privileged: true|readOnlyRootFilesystem: false|hostNetwork: true|hostPID: true|hostIPC: true)$`)
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		for _, w := range workloads(t, manifests) {
			lines := strings.Split(w.raw, "\n")
			for i, line := range lines {
				if door.MatchString(line) && !strings.HasPrefix(strings.TrimSpace(lines[i-1]), "#") {
					t.Errorf("%s:%d: %s: want the reason in a comment above", w.file, i+1, strings.TrimSpace(line))
				}
			}
		}
	})
}

// TestProxyReachesTheDriver: controller and node both call the cloud. A workload without the driver does not.
func TestProxyReachesTheDriver(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		for _, w := range workloads(t, manifests) {
			if !slices.ContainsFunc(w.containers(), func(c corev1.Container) bool { return c.Image == imageOf("DRIVER_IMAGE") }) {
				continue
			}
			for _, annotation := range []string{"config.openshift.io/inject-proxy", "config.openshift.io/inject-proxy-cabundle"} {
				names, driver := strings.Split(w.annotations[annotation], ","), false
				for _, name := range names {
					i := slices.IndexFunc(w.containers(), func(c corev1.Container) bool { return c.Name == name })
					if i < 0 {
						t.Errorf("%s: annotation %s names container %q, which its pods do not have", w.file, annotation, name)
						continue
					}
					driver = driver || w.containers()[i].Image == imageOf("DRIVER_IMAGE")
				}
				assert.Truef(t, driver, "%s: annotation %s is %q, want the name of the driver's container in it", w.file, annotation, w.annotations[annotation])
			}
		}
	})
}

// networkPolicyLabel begins the labels of pods that OpenShift's NetworkPolicies select.
const networkPolicyLabel = "openshift.storage.network-policy."

// TestNetworkPolicies: OpenShift's NetworkPolicies, and an administrator's beside them that denies all traffic, let through what the pods
// of operators and drivers need. They do not apply to the node's network; controllers have the labels all the same.
func TestNetworkPolicies(t *testing.T) {
	allowed := func(labels map[string]string) (found []string) {
		for name, value := range labels {
			if kind, ok := strings.CutPrefix(name, networkPolicyLabel); ok && value == "allow" {
				found = append(found, kind)
			}
		}
		slices.Sort(found)
		return found
	}
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		operator := d.OperatorDeployment()
		want := []string{"api-server", "dns", "operator-metrics-range"}
		if d.AsksCloud() {
			want = append([]string{"all-egress"}, want...)
		}
		assert.Equal(t, want, allowed(operator.Spec.Template.Labels), "traffic of the operator's pod")
		// The range of operator-metrics-range is 8443 to 8445, and the range of metrics-range is 9201 to 9223.
		for _, port := range operator.Spec.Template.Spec.Containers[0].Ports {
			if port.ContainerPort < 8443 || port.ContainerPort > 8445 {
				t.Errorf("the operator's port %d is not in the range 8443 to 8445, which NetworkPolicies permit", port.ContainerPort)
			}
		}
		want = []string{"all-egress", "api-server", "dns", "metrics-range"}
		for _, w := range workloads(t, manifests) {
			if w.pod.Spec.HostNetwork && w.kind == "DaemonSet" {
				continue
			}
			assert.Equalf(t, want, allowed(w.pod.Labels), "%s: traffic of its pods", w.file)
			for _, labels := range []map[string]string{w.selector.MatchLabels, operator.Spec.Selector.MatchLabels} {
				assert.Emptyf(t, allowed(labels), "%s: traffic for which the selector has labels of NetworkPolicies: it can never be changed, and must not have them", w.file)
			}
			for _, c := range w.containers() {
				for _, port := range c.Ports {
					if c.Image == imageOf("KUBE_RBAC_PROXY_IMAGE") && (port.ContainerPort < 9201 || port.ContainerPort > 9223) {
						t.Errorf("%s: port %d of container %s is not in the range 9201 to 9223, which NetworkPolicies permit", w.file, port.ContainerPort, c.Name)
					}
				}
			}
		}
	})
}

// TestProbesUseDeclaredPorts: a probe must use a port that its container declares.
func TestProbesUseDeclaredPorts(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		for _, w := range workloads(t, manifests) {
			for _, c := range w.containers() {
				named := map[string]bool{}
				for _, p := range c.Ports {
					named[p.Name] = true
				}
				for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
					if probe != nil && probe.HTTPGet != nil && !named[probe.HTTPGet.Port.String()] {
						t.Errorf("%s: a probe of container %s uses port %s, which the container does not declare", w.file, c.Name, probe.HTTPGet.Port.String())
					}
				}
			}
		}
	})
}
