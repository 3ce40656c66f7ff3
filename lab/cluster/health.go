package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// awaitHealthy waits until a component of the control plane reports that it is healthy.
func (c *controlPlane) awaitHealthy(ctx context.Context, port int, path string) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(c.pki.servers.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}
	defer transport.CloseIdleConnections()
	url := "https://" + c.hostPort(port) + path
	return Until(ctx, url, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", response.Status, body)
		}
		return nil
	})
}

// awaitServiceAccount waits until the controller manager has created a service account, such as the default one, which pods need.
func awaitServiceAccount(ctx context.Context, api client.Client, namespace, name string) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	return Until(ctx, "service account "+namespace+"/"+name, func(ctx context.Context) error {
		return api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.ServiceAccount{})
	})
}
