package drivers_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
)

// forEachOperator runs a test with the monitoring objects of each driver's operator, by kind. There is one of each
// kind.
func forEachOperator(t *testing.T, test func(t *testing.T, d drivers.Driver, monitoring map[string]drivers.Manifest)) {
	for _, d := range everyDriver() {
		t.Run(d.Name, func(t *testing.T) {
			manifests, err := d.OperatorMonitoring()
			require.NoError(t, err)
			byKind := map[string]drivers.Manifest{}
			for _, m := range manifests {
				assert.NoError(t, drivers.CheckRendered(m.YAML), m.File)
				assert.EqualValuesf(t, "", m.Object.GetNamespace(), "%s: has the namespace", m.File)
				byKind[m.Object.GetKind()] = m
			}
			test(t, d, byKind)
		})
	}
}

// TestOperatorMonitoringIsAccepted: the API server accepts every field of each object.
func TestOperatorMonitoringIsAccepted(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	administrator := resourcesOf(t, c.Config(), c.Client().RESTMapper())
	forEachOperator(t, func(t *testing.T, d drivers.Driver, monitoring map[string]drivers.Manifest) {
		ns := c.Namespace(t)
		for _, m := range monitoring {
			m.Object.SetNamespace(ns)
			_, err := administrator.of(t, m.Object).Create(t.Context(), m.Object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			assert.NoError(t, err, m.File)
		}
	})
}

// TestOperatorIsScraped follows the path from Prometheus to the operator's metrics.
func TestOperatorIsScraped(t *testing.T) {
	forEachOperator(t, func(t *testing.T, d drivers.Driver, monitoring map[string]drivers.Manifest) {
		service, deployment := as[corev1.Service](t, monitoring["Service"]), d.OperatorDeployment()
		pod := deployment.Spec.Template
		assert.Equal(t, deployment.Spec.Selector.MatchLabels, service.Spec.Selector, "labels of the pods that the Service selects")
		port := service.Spec.Ports[0]
		if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.String() }) {
			t.Errorf("the Service leads to port %s, which the operator's container does not have", port.TargetPort.String())
		}

		monitor := read[serviceMonitor](t, monitoring["ServiceMonitor"])
		assert.Empty(t, cmp.Diff(monitor.Spec.Selector.MatchLabels, service.Labels), "the ServiceMonitor does not select the Service (-selector +labels)")
		endpoint := monitor.Spec.Endpoints[0]
		if endpoint.Port != port.Name || endpoint.Scheme != "https" || endpoint.TLSConfig.InsecureSkipVerify {
			t.Errorf("Prometheus asks port %s by %s, insecureSkipVerify %v; want port %s by https, verified",
				endpoint.Port, endpoint.Scheme, endpoint.TLSConfig.InsecureSkipVerify, port.Name)
		}
		want := fmt.Sprintf("%s.harbour.svc:%d", service.Name, port.Port)
		assert.EqualValues(t, want, endpoint.address(service.Name, "harbour"), "in namespace harbour, Prometheus scrapes")

		secret := service.Annotations["service.beta.openshift.io/serving-cert-secret-name"]
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == secret })
		if i < 0 {
			t.Fatalf("the Service requests a certificate in the Secret %q, which the operator does not mount", secret)
		}
		if optional := pod.Spec.Volumes[i].Secret.Optional; optional == nil || !*optional {
			t.Errorf("the operator cannot start without the Secret %s", secret)
		}
	})
}

// read decodes an object of a kind without Go types here, as far as a test needs it.
func read[T any](t *testing.T, m drivers.Manifest) T {
	t.Helper()
	var typed T
	require.NoError(t, yaml.Unmarshal(m.YAML, &typed), m.File)
	return typed
}

type serviceMonitor struct {
	Spec struct {
		Selector  metav1.LabelSelector
		Endpoints []scrapeEndpoint
	}
}

type scrapeEndpoint struct {
	Port, Path, Scheme string
	TLSConfig          struct {
		ServerName         string
		InsecureSkipVerify bool
	}
	Relabelings []struct {
		SourceLabels                    []string
		Regex, TargetLabel, Replacement string
	}
}

// address applies relabeling to the address of a pod behind a Service. It returns "" if that leaves it alone.
func (e scrapeEndpoint) address(service, namespace string) string {
	found := map[string]string{"__meta_kubernetes_service_name": service, "__meta_kubernetes_namespace": namespace}
	for _, rule := range e.Relabelings {
		var values []string
		for _, label := range rule.SourceLabels {
			values = append(values, found[label])
		}
		source := strings.Join(values, ";")
		if match := regexp.MustCompile("^(?:" + rule.Regex + ")$").FindStringSubmatchIndex(source); match != nil && rule.TargetLabel == "__address__" {
			return string(regexp.MustCompile(rule.Regex).ExpandString(nil, rule.Replacement, source, match))
		}
	}
	return ""
}
