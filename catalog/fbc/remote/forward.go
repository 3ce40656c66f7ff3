package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// The label and the port name that OLM sets on the pod that serves a CatalogSource.
const (
	sourceLabel = "olm.catalogSource"
	portName    = "grpc"
)

// forward forwards a free loopback port to the pod that serves a CatalogSource, through the API server, until stop is
// called. It returns the local address and the pod's name.
func forward(ctx context.Context, config *rest.Config, source *v1alpha1.CatalogSource) (address, pod string, stop func(), err error) {
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return "", "", nil, err
	}
	pods, err := client.Pods(source.Namespace).List(ctx, metav1.ListOptions{LabelSelector: sourceLabel + "=" + source.Name})
	if err != nil {
		return "", "", nil, fmt.Errorf("listing its pods: %w", err)
	}
	serving := slices.IndexFunc(pods.Items, isReady)
	if serving < 0 {
		return "", "", nil, fmt.Errorf("none of the %d pods with label %s=%s in namespace %s is ready; see why with `%s`",
			len(pods.Items), sourceLabel, source.Name, source.Namespace, escape.Command("oc describe pod -n %s -l %s", source.Namespace, sourceLabel+"="+source.Name))
	}
	pod = pods.Items[serving].Name
	port := portOf(&pods.Items[serving])
	if port == 0 {
		return "", "", nil, fmt.Errorf("pod %s has no port named %s", pod, portName)
	}
	address, stop, err = forwardTo(ctx, config, client, source.Namespace, pod, port)
	return address, pod, stop, err
}

// forwardTo forwards a free loopback port to a port of a pod, until stop is called.
func forwardTo(ctx context.Context, config *rest.Config, client corev1client.CoreV1Interface, namespace, pod string, port int32) (address string, stop func(), err error) {
	dialer, err := newDialer(config, client.RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward"))
	if err != nil {
		return "", nil, err
	}
	stopping, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stopping, ready, io.Discard, io.Discard)
	if err != nil {
		return "", nil, err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return "", nil, fmt.Errorf("forwarding a port to pod %s, which requires permission to create pods/portforward: %w", pod, err)
	case <-ctx.Done():
		close(stopping)
		return "", nil, fmt.Errorf("forwarding a port to pod %s: %w", pod, context.Cause(ctx))
	}
	stop = func() {
		close(stopping)
		<-ended
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		stop()
		return "", nil, err
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), stop, nil
}

// newDialer returns a dialer that connects to a pod as kubectl does: over a WebSocket, or over SPDY if the API server is older.
func newDialer(config *rest.Config, request *rest.Request) (httpstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, request.URL())
	tunneling, err := portforward.NewSPDYOverWebsocketDialerForStreaming(request.URL(), config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialerForStreaming(tunneling, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

func isReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// portOf returns the port that a pod serves a catalog on, or 0.
func portOf(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == portName {
				return p.ContainerPort
			}
		}
	}
	return 0
}
