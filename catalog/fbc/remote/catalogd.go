package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// Download writes the documents of a catalog that catalogd serves for OLM v1, as JSON. base is status.urls.base of the
// ClusterCatalog. Download dials catalogd's Service or, if that is unreachable from here, forwards a port to a pod of the Service, through
// the API server. One of the authorities, in PEM, must have signed catalogd's certificate; the default is the authority that OpenShift
// puts into each namespace.
func Download(ctx context.Context, config *rest.Config, base string, authorities []byte, to io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not read within %s", timeout))
	defer cancel()
	at, err := url.Parse(base)
	if err != nil || at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("status.urls.base is %q, want an https URL", base)
	}
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return err
	}
	service, namespace := serviceOf(at.Hostname())
	if authorities == nil {
		if namespace == "" {
			return fmt.Errorf("status.urls.base is %q, which names no Service, so it does not show which authority has signed catalogd's certificate; name a file with it in --catalogd-ca", base)
		}
		if authorities, err = serviceAuthority(ctx, client, namespace); err != nil {
			return err
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return errors.New("the certificate authorities of catalogd have no certificate in PEM")
	}
	address := at.Host
	if at.Port() == "" {
		address = net.JoinHostPort(at.Hostname(), "443")
	}
	if direct := reachable(ctx, address); direct != nil {
		var stop func()
		if address, stop, err = forwardToService(ctx, config, client, namespace, service, at.Port()); err != nil {
			return fmt.Errorf("neither catalogd's address nor its pod can be reached: %w", errors.Join(direct, err))
		}
		defer stop()
	}
	return get(ctx, at.JoinPath("api/v1/all"), address, pool, to)
}

// serviceOf returns the Service of a host name such as catalogd-service.olmv1-system.svc, and nothing for an IP address.
func serviceOf(host string) (service, namespace string) {
	if net.ParseIP(host) != nil {
		return "", ""
	}
	service, rest, _ := strings.Cut(host, ".")
	namespace, _, _ = strings.Cut(rest, ".")
	return service, namespace
}

// The ConfigMap in each namespace with the authority that signs OpenShift's serving certificates.
const (
	authorityName = "openshift-service-ca.crt"
	authorityKey  = "service-ca.crt"
)

func serviceAuthority(ctx context.Context, client corev1client.CoreV1Interface, namespace string) ([]byte, error) {
	found, err := client.ConfigMaps(namespace).Get(ctx, authorityName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("namespace %s has no ConfigMap %s with the authority of catalogd's certificate; name a file with it in --catalogd-ca", namespace, authorityName)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the authority of catalogd's certificate: %w", err)
	}
	return []byte(found.Data[authorityKey]), nil
}

// forwardToService forwards a port to a pod of a Service.
func forwardToService(ctx context.Context, config *rest.Config, client corev1client.CoreV1Interface, namespace, name, port string) (address string, stop func(), err error) {
	service, err := client.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", nil, fmt.Errorf("reading Service %s/%s: %w", namespace, name, err)
	}
	if len(service.Spec.Selector) == 0 {
		return "", nil, fmt.Errorf("the Service %s/%s selects no pods", namespace, name)
	}
	pods, err := client.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String()})
	if err != nil {
		return "", nil, fmt.Errorf("listing the pods of Service %s/%s: %w", namespace, name, err)
	}
	serving := slices.IndexFunc(pods.Items, isReady)
	if serving < 0 {
		return "", nil, fmt.Errorf("none of the %d pods of Service %s/%s is ready", len(pods.Items), namespace, name)
	}
	target := targetPort(service, &pods.Items[serving], port)
	if target == 0 {
		return "", nil, fmt.Errorf("the Service %s/%s has no port %q that pod %s serves", namespace, name, port, pods.Items[serving].Name)
	}
	return forwardTo(ctx, config, client, namespace, pods.Items[serving].Name, target)
}

// targetPort returns the port of a pod behind a port of its Service, or 0.
func targetPort(service *corev1.Service, pod *corev1.Pod, port string) int32 {
	for _, p := range service.Spec.Ports {
		if port != "" && fmt.Sprint(p.Port) != port || port == "" && p.Port != 443 {
			continue
		}
		if p.TargetPort.Type == intstr.Int {
			if p.TargetPort.IntVal == 0 {
				return p.Port
			}
			return p.TargetPort.IntVal
		}
		for _, c := range pod.Spec.Containers {
			for _, of := range c.Ports {
				if of.Name == p.TargetPort.StrVal {
					return of.ContainerPort
				}
			}
		}
	}
	return 0
}

// get writes the answer of an HTTPS server, up to maxSize bytes. It dials address, and expects a certificate for the host of the
// URL.
func get(ctx context.Context, from *url.URL, address string, pool *x509.CertPool, to io.Writer) (err error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: from.Hostname(), MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: 10 * time.Second,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("catalogd redirects the request, expected an answer: the certificate of another server could not be checked")
	}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s, want 200 OK", from, response.Status)
	}
	written, err := io.Copy(to, io.LimitReader(response.Body, maxSize+1))
	if err == nil && written > maxSize {
		err = fmt.Errorf("the catalog has more than %d bytes", maxSize)
	}
	return err
}
