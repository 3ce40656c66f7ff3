package testbed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/portforward"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// CheckMetrics reads the metrics of the driver's pods as the cluster's Prometheus does: at each endpoint of each
// ServiceMonitor, from a server with the name that it expects, as an account that may. Another account is refused. The
// endpoints are all that the pods have.
func (b *Testbed) CheckMetrics(t *testing.T) {
	namespace := b.Namespace(t)
	reader, stranger := b.ServiceAccountConfig(t, namespace, "prometheus"), b.ServiceAccountConfig(t, namespace, "stranger")
	meta := metav1.ObjectMeta{Name: namespace + "-prometheus"}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "prometheus"}},
		},
	} {
		require.NoError(t, b.Client().Create(t.Context(), object))
	}
	proxies := b.metricsProxies(t)
	assert.NotEmpty(t, proxies, "no container of the driver serves metrics")
	for _, e := range b.metricsEndpoints(t) {
		cluster.Eventually(t, Limit, "metrics of "+e.String(), func(ctx context.Context) error {
			return b.forward(e.pod, e.port, func(address string) error {
				return errors.Join(
					b.wantMetrics(ctx, e, address, reader.BearerToken, http.StatusOK),
					b.wantMetrics(ctx, e, address, stranger.BearerToken, http.StatusForbidden))
			})
		})
		delete(proxies, e.port)
	}
	for port, container := range proxies {
		t.Errorf("container %s serves metrics at port %d, but no ServiceMonitor has an endpoint for it", container, port)
	}
}

// metricsEndpoint is where a pod serves metrics.
type metricsEndpoint struct {
	pod       *corev1.Pod
	container string
	port      int32
	path      string
	server    string // the name in its certificate
}

func (e metricsEndpoint) String() string {
	return fmt.Sprintf("container %s of pod %s at port %d", e.container, e.pod.Name, e.port)
}

// serviceMonitor has the fields of a ServiceMonitor that definitions use.
type serviceMonitor struct {
	Spec struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port      string `json:"port"`
			Path      string `json:"path"`
			TLSConfig struct {
				ServerName string `json:"serverName"`
			} `json:"tlsConfig"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// metricsEndpoints returns the endpoints that the driver's ServiceMonitors name, each in one pod.
func (b *Testbed) metricsEndpoints(t *testing.T) (all []metricsEndpoint) {
	t.Helper()
	monitors := &unstructured.UnstructuredList{}
	monitors.SetAPIVersion("monitoring.coreos.com/v1")
	monitors.SetKind("ServiceMonitorList")
	inDriver := client.InNamespace(b.DriverNamespace())
	require.NoError(t, b.Client().List(t.Context(), monitors, inDriver))
	for _, object := range monitors.Items {
		var monitor serviceMonitor
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &monitor))
		services := &corev1.ServiceList{}
		if err := b.Client().List(t.Context(), services, inDriver, client.MatchingLabels(monitor.Spec.Selector.MatchLabels)); err != nil || len(services.Items) != 1 {
			t.Fatalf("ServiceMonitor %s selects %d Services (error %v), want one", object.GetName(), len(services.Items), err)
		}
		service := services.Items[0]
		pod := b.podOf(t, service)
		if pod == nil {
			continue // the operator is in the same namespace
		}
		for _, endpoint := range monitor.Spec.Endpoints {
			container, port := target(service, pod, endpoint.Port)
			if port == 0 {
				t.Errorf("ServiceMonitor %s: no container of pod %s has the port that Service %s calls %s", object.GetName(), pod.Name, service.Name, endpoint.Port)
				continue
			}
			all = append(all, metricsEndpoint{pod, container, port, endpoint.Path, endpoint.TLSConfig.ServerName})
		}
	}
	return all
}

// podOf returns a pod of the driver that belongs to a Service, or nil.
func (b *Testbed) podOf(t *testing.T, service corev1.Service) *corev1.Pod {
	t.Helper()
	selector := labels.SelectorFromSet(service.Spec.Selector)
	for _, pod := range b.DriverPods(t) {
		if selector.Matches(labels.Set(pod.Labels)) {
			return &pod
		}
	}
	return nil
}

// target returns the container and the port of a pod behind a Service's port, or 0.
func target(service corev1.Service, pod *corev1.Pod, name string) (container string, port int32) {
	for _, of := range service.Spec.Ports {
		if of.Name != name {
			continue
		}
		for _, c := range pod.Spec.Containers {
			for _, p := range c.Ports {
				if p.Name == of.TargetPort.String() || p.ContainerPort == of.TargetPort.IntVal {
					return c.Name, p.ContainerPort
				}
			}
		}
	}
	return "", 0
}

// metricsProxies returns the names of the driver's containers that serve metrics, by their ports, which differ: pods of
// controllers and of nodes are on the same hosts.
func (b *Testbed) metricsProxies(t *testing.T) map[int32]string {
	t.Helper()
	proxies := map[int32]string{}
	for _, pod := range b.DriverPods(t) {
		for _, container := range pod.Spec.Containers {
			if !slices.ContainsFunc(container.Args, func(arg string) bool { return strings.HasPrefix(arg, "--secure-listen-address=") }) {
				continue
			}
			require.Lenf(t, container.Ports, 1, "ports of container %s of pod %s, which serves metrics", container.Name, pod.Name)
			proxies[container.Ports[0].ContainerPort] = container.Name
		}
	}
	return proxies
}

// wantMetrics returns an error unless the answer to an account has a code, and metrics if that is OK.
func (b *Testbed) wantMetrics(ctx context.Context, e metricsEndpoint, address, token string, code int) error {
	https := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: b.services.trusted, ServerName: e.server}, DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+e.path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := https.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != code || strings.Contains(string(body), "# TYPE ") != (code == http.StatusOK) {
		return fmt.Errorf("got %s (error %v): %.200s; want code %d", response.Status, err, body, code)
	}
	return nil
}

// forward calls a function with a local address that leads to a port of a pod.
func (b *Testbed) forward(pod *corev1.Pod, port int32, use func(address string) error) error {
	api, err := kubernetes.NewForConfig(b.Config())
	if err != nil {
		return err
	}
	url := api.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(url, b.Config())
	if err != nil {
		return err
	}
	ready, stop, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.New(dialer, []string{fmt.Sprintf(":%d", port)}, stop, ready, nil, nil)
	if err != nil {
		return err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return fmt.Errorf("forward a port to pod %s: %w", pod.Name, err)
	}
	defer func() {
		close(stop)
		<-ended
	}()
	ports, err := forwarder.GetPorts()
	if err != nil {
		return err
	}
	return use(fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
}

// harmlessEnds are in the last words of containers that end although nothing is wrong with the driver. They work from their
// next start on.
var harmlessEnds = []string{
	// A proxy ends that the kubelet started before the cluster had made its certificate.
	"open /etc/tls/private/tls.crt: no such file or directory",
	// A registrar ends if the driver does not say its name within a second, which a busy machine may take.
	"ask the driver for its name: rpc error: code = DeadlineExceeded",
}

// HasCrashed returns whether a container was started again, other than after a harmless end.
func HasCrashed(status corev1.ContainerStatus) bool {
	last := status.LastTerminationState.Terminated
	return status.RestartCount > 0 && (last == nil || !slices.ContainsFunc(harmlessEnds, func(words string) bool { return strings.Contains(last.Message, words) }))
}

// CheckNoRestarts fails the test if a container of the driver has crashed.
func (b *Testbed) CheckNoRestarts(t *testing.T) {
	pods := b.DriverPods(t)
	assert.NotEmpty(t, pods, "the driver has no pods")
	for _, pod := range pods {
		for _, status := range pod.Status.ContainerStatuses {
			if HasCrashed(status) {
				t.Errorf("container %s of pod %s has restarted %d times; it ended with %+v", status.Name, pod.Name, status.RestartCount, status.LastTerminationState.Terminated)
			}
		}
	}
}
