package manila

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/sharetypes"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/yaml"
)

// Keys of the Secret that the cloud credential operator creates.
const (
	cloudsKey = "clouds.yaml" // how to log in to the cloud
	caKey     = "cacert"      // the CA of the cloud's certificates; optional, and only since OpenShift 4.19
)

// cloudName is the name that the installer gives the cloud in clouds.yaml.
const cloudName = "openstack"

// shareTypes returns the names of Manila's share types that are visible to the cluster's project.
func shareTypes(ctx context.Context, cloud drivers.Cloud) ([]string, error) {
	file, err := withoutPaths(cloud.Credentials[cloudsKey])
	if err != nil {
		return nil, err
	}
	login, endpoint, tlsConfig, err := clouds.Parse(clouds.WithCloudsYAML(bytes.NewReader(file)), clouds.WithCloudName(cloudName))
	if err != nil {
		return nil, fmt.Errorf("the Secret %s, key %s: %w", cloudSecret, cloudsKey, err)
	}
	if tlsConfig.RootCAs, err = authorities(cloud); err != nil {
		return nil, err
	}
	provider, err := config.NewProviderClient(ctx, login, config.WithTLSConfig(tlsConfig))
	if err != nil {
		return nil, fmt.Errorf("logging in to Keystone at %s: %w", login.IdentityEndpoint, err)
	}
	defer provider.HTTPClient.CloseIdleConnections()
	manila, err := openstack.NewSharedFileSystemV2(provider, endpoint)
	if err != nil {
		return nil, fmt.Errorf("looking for Manila in Keystone's catalog: %w", err)
	}
	page, err := sharetypes.List(manila, sharetypes.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking Manila at %s: %w", manila.Endpoint, err)
	}
	types, err := sharetypes.ExtractShareTypes(page)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of Manila at %s: %w", manila.Endpoint, err)
	}
	var names []string
	for _, t := range types {
		names = append(names, t.Name)
	}
	return names, nil
}

// authorities returns the CAs of the cloud's certificates, where the driver's pods have them from too: the cloud's own, and without
// any the system's and those that the cluster trusts.
func authorities(cloud drivers.Cloud) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if cloud.CABundle != "" {
		if !pool.AppendCertsFromPEM([]byte(cloud.CABundle)) {
			return nil, drivers.CheckCABundle(cloud.CABundle)
		}
		return pool, nil
	}
	bundle := cloud.Credentials[caKey]
	if len(bundle) == 0 {
		return drivers.Authorities(cloud.TrustedCABundle)
	}
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("the Secret %s, key %s: holds no certificate in PEM format", cloudSecret, caKey)
	}
	return pool, nil
}

// withoutPaths returns clouds.yaml without the path of the CA certificate, which is valid only in the driver's pods.
func withoutPaths(file []byte) ([]byte, error) {
	if len(bytes.TrimSpace(file)) == 0 {
		return nil, fmt.Errorf("the Secret %s has no key %s", cloudSecret, cloudsKey)
	}
	var content struct {
		Clouds map[string]map[string]any `json:"clouds"`
	}
	if err := yaml.Unmarshal(file, &content); err != nil {
		return nil, fmt.Errorf("the Secret %s, key %s: %s", cloudSecret, cloudsKey, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	for _, cloud := range content.Clouds {
		delete(cloud, "cacert")
	}
	return yaml.Marshal(content)
}
