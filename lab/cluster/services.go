package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/things-go/go-socks5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serveServices serves, until the listener is closed, a SOCKS proxy that connects programs of this machine to Services
// by name, such as "catalog.openshift-marketplace.svc". OLM gets such a proxy where it does not run on the cluster's
// own nodes, as with HyperShift. There is no kube-proxy: a connection leads to a ready pod of the Service. It does not
// use EndpointSlices, which cannot hold the loopback addresses of pods on process nodes.
func serveServices(listener net.Listener, api client.Reader, dial func(ctx context.Context, address string) (net.Conn, error)) error {
	server := socks5.NewServer(
		socks5.WithResolver(unresolved{}),
		socks5.WithDialAndRequest(func(ctx context.Context, _, _ string, request *socks5.Request) (net.Conn, error) {
			endpoint, err := serviceEndpoint(ctx, api, request.RawDestAddr.FQDN, request.RawDestAddr.Port)
			if err != nil {
				return nil, fmt.Errorf("connect to %s, port %d: %w", request.RawDestAddr.FQDN, request.RawDestAddr.Port, err)
			}
			return dial(ctx, endpoint)
		}))
	return server.Serve(listener)
}

// unresolved leaves names to the dialer, which also knows the port.
type unresolved struct{}

func (unresolved) Resolve(ctx context.Context, _ string) (context.Context, net.IP, error) {
	return ctx, net.IPv4zero, nil
}

// serviceEndpoint returns the address of a ready pod behind a port of a Service with a host name.
func serviceEndpoint(ctx context.Context, api client.Reader, host string, port int) (address string, err error) {
	labels := strings.Split(host, ".")
	if len(labels) < 3 || labels[2] != "svc" {
		return "", fmt.Errorf("found the name %q, expected that of a Service, such as catalog.openshift-marketplace.svc", host)
	}
	service := &corev1.Service{}
	if err := api.Get(ctx, client.ObjectKey{Namespace: labels[1], Name: labels[0]}, service); err != nil {
		return "", err
	}
	at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == port })
	if at < 0 {
		return "", fmt.Errorf("found the Service's ports %v, expected %d among them", service.Spec.Ports, port)
	}
	pods := &corev1.PodList{}
	if err := api.List(ctx, pods, client.InNamespace(service.Namespace), client.MatchingLabels(service.Spec.Selector)); err != nil {
		return "", err
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil && IsReady(&pod) {
			return net.JoinHostPort(pod.Status.PodIP, service.Spec.Ports[at].TargetPort.String()), nil
		}
	}
	return "", fmt.Errorf("none of %d pods of the Service is ready", len(pods.Items))
}

// IsReady reports whether a pod has the condition Ready.
func IsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
