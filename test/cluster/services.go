package cluster

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/things-go/go-socks5"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serveServices serves, until the listener is closed, a SOCKS proxy with which a program of this machine connects to Services
// by their names, such as "catalog.openshift-marketplace.svc". OLM gets such a proxy wherever it does not run on the cluster's
// own nodes, as with HyperShift. There is no kube-proxy: a connection leads to a ready pod of the Service.
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
	slices := &discoveryv1.EndpointSliceList{}
	if err := api.List(ctx, slices, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}); err != nil {
		return "", err
	}
	for _, servicePort := range service.Spec.Ports {
		if int(servicePort.Port) != port {
			continue
		}
		for _, slice := range slices.Items {
			if address := readyEndpoint(slice, servicePort.Name); address != "" {
				return address, nil
			}
		}
		return "", fmt.Errorf("no pod of the Service is ready")
	}
	return "", fmt.Errorf("the Service has no such port")
}

// readyEndpoint returns the address of a ready pod at a port with a name, or "".
func readyEndpoint(slice discoveryv1.EndpointSlice, portName string) string {
	for _, port := range slice.Ports {
		if ptr.Deref(port.Name, "") != portName || port.Port == nil {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, false) {
				return net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port)))
			}
		}
	}
	return ""
}
