// Package openstack logs in to an OpenStack cloud, for operators that query a service of the cloud. It trusts the same
// certificate authorities as the driver's pods.
package openstack

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/boundedyaml"
)

// CloudName is the name that the installer gives the cloud in clouds.yaml.
const CloudName = "openstack"

// Keys of the Secret that the cloud credential operator creates.
const (
	CloudsKey = "clouds.yaml" // how to log in to the cloud
	CAKey     = "cacert"      // the CA of the cloud's certificates; optional, and only since OpenShift 4.19
)

// Login logs in with the credentials of the named Secret. If insecure, it trusts any certificate. The caller closes the
// idle connections of the provider's HTTPClient.
func Login(ctx context.Context, cloud drivers.Cloud, secret string, insecure bool) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	file, err := withoutPaths(cloud.Credentials[CloudsKey], secret)
	if err != nil {
		return nil, gophercloud.EndpointOpts{}, err
	}
	login, endpoint, tlsConfig, err := clouds.Parse(clouds.WithCloudsYAML(bytes.NewReader(file)), clouds.WithCloudName(CloudName))
	if err != nil {
		return nil, endpoint, fmt.Errorf("the Secret %s, key %s: %w", secret, CloudsKey, err)
	}
	if tlsConfig.RootCAs, err = authorities(cloud, secret); err != nil {
		return nil, endpoint, err
	}
	tlsConfig.InsecureSkipVerify = tlsConfig.InsecureSkipVerify || insecure
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = tlsConfig
	provider, err := config.NewProviderClient(ctx, login, config.WithHTTPClient(http.Client{Transport: drivers.LimitedTransport{Transport: transport}}))
	if err != nil {
		return nil, endpoint, fmt.Errorf("logging in to Keystone at %s: %w", login.IdentityEndpoint, err)
	}
	return provider, endpoint, nil
}

// authorities returns the CAs of the cloud's certificates, from the same sources as in the driver's pods: the cloud's
// own CAs or, if there are none, the system's and those that the cluster trusts.
func authorities(cloud drivers.Cloud, secret string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if cloud.CABundle != "" {
		if !pool.AppendCertsFromPEM([]byte(cloud.CABundle)) {
			return nil, drivers.CheckCABundle(cloud.CABundle)
		}
		return pool, nil
	}
	bundle := cloud.Credentials[CAKey]
	if len(bundle) == 0 {
		return drivers.Authorities(cloud.TrustedCABundle)
	}
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("the Secret %s, key %s: holds no certificate in PEM format", secret, CAKey)
	}
	return pool, nil
}

// withoutPaths returns clouds.yaml without the paths of certificates and keys, which are valid only in the driver's pods: whoever may
// write the Secret could make the operator read files of its own pod, even endless ones.
func withoutPaths(file []byte, secret string) ([]byte, error) {
	if len(bytes.TrimSpace(file)) == 0 {
		return nil, fmt.Errorf("the Secret %s has no key %s", secret, CloudsKey)
	}
	var content struct {
		Clouds map[string]map[string]any `json:"clouds"`
	}
	if err := boundedyaml.Unmarshal(file, &content); err != nil {
		return nil, fmt.Errorf("the Secret %s, key %s: %s", secret, CloudsKey, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	for _, cloud := range content.Clouds {
		for _, path := range []string{"cacert", "cert", "key"} {
			delete(cloud, path)
		}
	}
	return boundedyaml.Marshal(content)
}
