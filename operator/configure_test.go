package operator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

var singleton = metav1.ObjectMeta{Name: "cluster"}

// TestConfiguration changes the configuration of the cluster while a driver is installed.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	env.installDriver()
	for _, tc := range []struct {
		name string
		test func(*testEnv)
	}{
		{"pods", podsAreKeptApartAndModest},
		{"proxy", proxyReachesTheDriver},
		{"trusted CA", trustedCAReachesTheDriver},
		{"log level", logLevelReachesTheDriver},
		{"topology", topologyDecidesOnReplicasAndNodes},
		{"TLS profile", tlsProfileIsHonoured},
		{"resource tags", resourceTagsReachTheDriver},
		{"volume metrics", volumeMetricsReachTheNodes},
		{"credentials", changedCredentialsRollTheirPodsOnly},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(env.in(t)) })
	}
	env.waitForConditions(allWell)
}

// podsAreKeptApartAndModest checks the running pods: each is on a node of its own, with resource requests and a priority
// class, and there is a PodDisruptionBudget.
func podsAreKeptApartAndModest(env *testEnv) {
	pods := &corev1.PodList{}
	cluster.Eventually(env.t, limit, "the driver's pods", func(ctx context.Context) error {
		if err := env.Client().List(ctx, pods, client.InNamespace(env.home)); err != nil {
			return err
		}
		if len(pods.Items) != 5 {
			return fmt.Errorf("there are %d, want 2 of the controller and one on each of 3 nodes", len(pods.Items))
		}
		return nil
	})
	nodes := map[string][]string{} // by the pods' label
	for _, pod := range pods.Items {
		app := pod.Labels["app"]
		nodes[app] = append(nodes[app], pod.Spec.NodeName)
		want := map[string]string{"efs-csi-controller": "system-cluster-critical", "efs-csi-node": "system-node-critical"}[app]
		assert.Equalf(env.t, want, pod.Spec.PriorityClassName, "priority class of pod %s", pod.Name)
		for _, c := range pod.Spec.Containers {
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
				env.t.Errorf("pod %s: container %s requests %v, want CPU and memory", pod.Name, c.Name, c.Resources.Requests)
			}
		}
	}
	for _, names := range nodes {
		slices.Sort(names)
	}
	assert.Empty(env.t, cmp.Diff(map[string][]string{
		"efs-csi-controller": {"control-plane-0", "control-plane-1"},
		"efs-csi-node":       {"control-plane-0", "control-plane-1", "worker-0"},
	}, nodes), "nodes of the driver's pods (-want +got)")
	budget := &policyv1.PodDisruptionBudget{}
	cluster.Eventually(env.t, limit, "one of the controller's pods to be disruptable", func(ctx context.Context) error {
		if err := env.Client().Get(ctx, client.ObjectKey{Namespace: env.home, Name: "efs-csi-controller"}, budget); err != nil {
			return err
		}
		if s := budget.Status; s.ExpectedPods != 2 || s.DisruptionsAllowed != 1 {
			return fmt.Errorf("%d of %d pods are", s.DisruptionsAllowed, s.ExpectedPods)
		}
		return nil
	})
}

func proxyReachesTheDriver(env *testEnv) {
	during(env, &configv1.Proxy{ObjectMeta: singleton}, func(p *configv1.Proxy) {
		p.Status = configv1.ProxyStatus{HTTPProxy: "http://proxy.test:3128", HTTPSProxy: "https://proxy.test:3129", NoProxy: ".svc,10.0.0.0/8"}
	})
	want := map[string]string{"HTTP_PROXY": "http://proxy.test:3128", "HTTPS_PROXY": "https://proxy.test:3129", "NO_PROXY": ".svc,10.0.0.0/8"}
	env.waitForWorkloads("the proxy in the driver's environment", func(l workloads) error {
		return l.onBoth(func(_ corev1.PodTemplateSpec, c corev1.Container) error {
			got := map[string]string{}
			for _, env := range c.Env {
				if _, ok := want[env.Name]; ok {
					got[env.Name] = env.Value
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("variables of container %s (-want +got):\n%s", c.Name, diff)
			}
			return nil
		})
	})
}

func trustedCAReachesTheDriver(env *testEnv) {
	bundle := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: env.driver.TrustedCABundle}}
	marksOf := func(l workloads) (found []map[string]string) {
		for _, pod := range []corev1.PodTemplateSpec{l.controller.Spec.Template, l.node.Spec.Template} {
			mark := map[string]string{}
			for key, value := range pod.Annotations {
				if strings.HasPrefix(key, "operator.openshift.io/dep-") {
					mark[key] = value
				}
			}
			found = append(found, mark)
		}
		return found
	}
	fill := func(content string) {
		change(env, bundle, func(c *corev1.ConfigMap) { c.Data = map[string]string{"ca-bundle.crt": content} })
	}
	fill("one authority")
	before := env.waitForWorkloads("the trusted CA bundle in the driver's pods", func(l workloads) error {
		return l.onBoth(func(pod corev1.PodTemplateSpec, c corev1.Container) error {
			for _, v := range pod.Spec.Volumes {
				if v.ConfigMap != nil && v.ConfigMap.Name == bundle.Name {
					if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
						return nil
					}
				}
			}
			return fmt.Errorf("container %s does not mount it", c.Name)
		})
	})
	fill("another authority")
	env.waitForWorkloads("the pods to roll with the trusted CA bundle", func(l workloads) error {
		for i, mark := range marksOf(l) {
			if maps.Equal(mark, marksOf(before)[i]) {
				return fmt.Errorf("still %v", mark)
			}
		}
		return nil
	})
}

func logLevelReachesTheDriver(env *testEnv) {
	during(env, env.customResource(), func(c *operatorv1.ClusterCSIDriver) { c.Spec.LogLevel = operatorv1.Trace })
	env.waitForWorkloads("the log level in the driver's arguments", func(l workloads) error {
		return l.onBoth(func(_ corev1.PodTemplateSpec, c corev1.Container) error { return argument(c, "--v=6") })
	})
}

func topologyDecidesOnReplicasAndNodes(env *testEnv) {
	const controlPlane = "node-role.kubernetes.io/master"
	infrastructure := &configv1.Infrastructure{ObjectMeta: singleton}
	during(env, infrastructure, func(*configv1.Infrastructure) {})
	for _, tc := range []struct {
		topology       configv1.TopologyMode
		replicas       int32
		onControlPlane bool
	}{
		{configv1.SingleReplicaTopologyMode, 1, true},
		{configv1.ExternalTopologyMode, 1, false},
		{configv1.HighlyAvailableTopologyMode, 2, true},
	} {
		change(env, infrastructure, func(i *configv1.Infrastructure) { i.Status.ControlPlaneTopology = tc.topology })
		env.waitForWorkloads("a controller for topology "+string(tc.topology), func(l workloads) error {
			_, selected := l.controller.Spec.Template.Spec.NodeSelector[controlPlane]
			if got := *l.controller.Spec.Replicas; got != tc.replicas || selected != tc.onControlPlane {
				return fmt.Errorf("%d replicas, on the control plane %v; want %d, %v", got, selected, tc.replicas, tc.onControlPlane)
			}
			return nil
		})
	}
}

func tlsProfileIsHonoured(env *testEnv) {
	apiServer := &configv1.APIServer{ObjectMeta: singleton}
	during(env, apiServer, func(*configv1.APIServer) {})
	custom := func(version configv1.TLSProtocolVersion, ciphers ...string) *configv1.TLSSecurityProfile {
		return &configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType, Custom: &configv1.CustomTLSProfile{
			TLSProfileSpec: configv1.TLSProfileSpec{MinTLSVersion: version, Ciphers: ciphers}}}
	}
	for _, tc := range []struct {
		name    string
		profile *configv1.TLSSecurityProfile
		version string
		ciphers string // "" for no argument
	}{
		{"modern", &configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType, Modern: &configv1.ModernTLSProfile{}},
			"VersionTLS13", "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"},
		{"custom", custom(configv1.VersionTLS11, "ECDHE-RSA-AES128-GCM-SHA256"), "VersionTLS11", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
		{"no cipher suite that Go supports", custom(configv1.VersionTLS12, "DHE-RSA-AES128-GCM-SHA256"), "VersionTLS12", ""},
	} {
		change(env, apiServer, func(a *configv1.APIServer) { a.Spec.TLSSecurityProfile = tc.profile })
		env.waitForWorkloads("the TLS profile: "+tc.name, func(l workloads) error {
			var failed []error
			for _, proxy := range []corev1.Container{
				container(l.controller.Spec.Template, "provisioner-kube-rbac-proxy"),
				container(l.controller.Spec.Template, "liveness-probe-kube-rbac-proxy"),
				container(l.node.Spec.Template, "liveness-probe-kube-rbac-proxy"),
			} {
				failed = append(failed, argument(proxy, "--tls-min-version="+tc.version))
				if tc.ciphers != "" {
					failed = append(failed, argument(proxy, "--tls-cipher-suites="+tc.ciphers))
				} else if i := slices.IndexFunc(proxy.Args, func(arg string) bool { return strings.HasPrefix(arg, "--tls-cipher-suites") }); i >= 0 {
					failed = append(failed, fmt.Errorf("%s has %s, want none", proxy.Name, proxy.Args[i]))
				}
			}
			return errors.Join(failed...)
		})
	}
}

func resourceTagsReachTheDriver(env *testEnv) {
	const owned = "kubernetes.io/cluster/" + cluster.InfrastructureName + ":owned"
	applied := env.driver.ConditionPrefix + "DriverSettingsApplied"
	infrastructure := &configv1.Infrastructure{ObjectMeta: singleton}
	during(env, infrastructure, func(*configv1.Infrastructure) {})
	tag := func(tags ...configv1.AWSResourceTag) {
		change(env, infrastructure, func(i *configv1.Infrastructure) { i.Status.PlatformStatus.AWS.ResourceTags = tags })
	}
	env.waitForConditions(map[string]operatorv1.ConditionStatus{applied: operatorv1.ConditionTrue})

	tag(configv1.AWSResourceTag{Key: "team", Value: "a: b"})
	env.waitForEvent("SettingsLeftOut", "DRIVER_VERSION") // the version in the default image cannot be given this tag
	env.variables.Store("DRIVER_VERSION", "3.4.1")
	env.t.Cleanup(func() { env.variables.Delete("DRIVER_VERSION") })
	tag(configv1.AWSResourceTag{Key: "team", Value: "a: b"}, configv1.AWSResourceTag{Key: "aws:cost", Value: "7"})
	env.waitForWorkloads("the cluster's tags", func(l workloads) error {
		return argument(container(l.controller.Spec.Template, "csi-driver"), `--tags=team:a\\:\ b `+owned)
	})
	env.waitForEvent("SettingsLeftOut", `"aws:cost"`)
	custom := env.waitForConditions(map[string]operatorv1.ConditionStatus{applied: operatorv1.ConditionFalse, "Degraded": operatorv1.ConditionFalse})
	if got := condition(custom, applied); got.Reason != "LeftOut" || !strings.Contains(got.Message, `"aws:cost"`) || strings.Contains(got.Message, `"team"`) {
		env.t.Errorf("condition = %s: %s; want LeftOut, and only the tag aws:cost named", got.Reason, got.Message)
	}

	tag()
	env.waitForWorkloads("only the ownership tag", func(l workloads) error {
		return argument(container(l.controller.Spec.Template, "csi-driver"), "--tags="+owned)
	})
	env.waitForConditions(map[string]operatorv1.ConditionStatus{applied: operatorv1.ConditionTrue})
}

func volumeMetricsReachTheNodes(env *testEnv) {
	during(env, env.customResource(), func(c *operatorv1.ClusterCSIDriver) {
		c.Spec.DriverConfig = operatorv1.CSIDriverConfigSpec{DriverType: operatorv1.AWSDriverType, AWS: &operatorv1.AWSCSIDriverConfigSpec{
			EFSVolumeMetrics: &operatorv1.AWSEFSVolumeMetrics{
				State:         operatorv1.AWSEFSVolumeMetricsRecursiveWalk,
				RecursiveWalk: &operatorv1.AWSEFSVolumeMetricsRecursiveWalkConfig{RefreshPeriodMinutes: 90, FSRateLimit: 3},
			},
		}}
	})
	env.waitForWorkloads("volume metrics on the nodes", func(l workloads) error {
		node := container(l.node.Spec.Template, "efs-plugin")
		return errors.Join(argument(node, "--vol-metrics-opt-in=true"), argument(node, "--vol-metrics-refresh-period=90"), argument(node, "--vol-metrics-fs-rate-limit=3"))
	})
}

func changedCredentialsRollTheirPodsOnly(env *testEnv) {
	const ofController, ofNode = "aws-efs-cloud-credentials", "node-aws-efs-cloud-credentials"
	before := env.waitForWorkloads("the annotations with the hashes of the mounted credentials", func(l workloads) error {
		for secret, pod := range map[string]corev1.PodTemplateSpec{ofController: l.controller.Spec.Template, ofNode: l.node.Spec.Template} {
			if got := slices.Collect(maps.Keys(marks(pod))); !slices.Equal(got, []string{secret}) {
				return fmt.Errorf("annotations for %q, want just %s", got, secret)
			}
		}
		return nil
	})
	rotate := func(name string) {
		change(env, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name}},
			func(s *corev1.Secret) { s.Data["aws_secret_access_key"] = []byte("changed") })
	}
	rotate(ofNode)
	after := env.waitForWorkloads("the nodes to roll", func(l workloads) error {
		if cmp.Equal(marks(before.node.Spec.Template), marks(l.node.Spec.Template)) {
			return errors.New("the annotations are unchanged")
		}
		return nil
	})
	assert.Empty(env.t, cmp.Diff(before.controller.Spec.Template, after.controller.Spec.Template), "the controller rolls with the nodes' credentials (-before +after)")
	for _, event := range env.requests() {
		if event.Resource == "secrets" && !strings.Contains(event.URI, "metadata.name%3D") {
			env.t.Errorf("the operator reads more Secrets than the driver's: %s %s", event.Verb, event.URI)
		}
	}
}
