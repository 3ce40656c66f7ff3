package drivers

import (
	"crypto/x509"
	"fmt"
)

// OpenShift publishes the configuration of the cloud in this ConfigMap, a copy of the ConfigMap that the Infrastructure names in
// spec.cloudConfig. It has a key for the configuration, and a key for the CA bundle of the cloud's endpoints, which the installer fills
// from additionalTrustBundle. Only administrators can write to the namespace.
const (
	CloudConfigNamespace = "openshift-config-managed"
	CloudConfigName      = "kube-cloud-config"
	CloudConfigKey       = "cloud.conf"
	CABundleKey          = "ca-bundle.pem"
)

// TrustedCAKey is the key of the certificate authorities that the cluster trusts, in each ConfigMap that the cluster network operator
// fills.
const TrustedCAKey = "ca-bundle.crt"

// DriverConfigNamespace is where administrators configure single drivers. Only they can write to it.
const DriverConfigNamespace = "openshift-config"

// CloudConfig says which parts of the cloud's configuration a driver's pods need.
type CloudConfig struct {
	// ConfigMap is the ConfigMap among the assets that the operator fills. Pods that mount it roll when it changes.
	ConfigMap string
	// Source is the ConfigMap in DriverConfigNamespace with which an administrator configures the driver; "" if there is
	// none.
	Source string
	// Content returns the new content of ConfigMap. It gets the contents of three ConfigMaps: the configuration of the
	// cloud, Source, and the current ConfigMap, which an earlier operator may have written. Each is nil if there is no
	// such ConfigMap. After an error, the content stays as it is.
	Content func(cloud, source, current map[string]string) (content map[string]string, err error)
	// Discovery describes what the operator asks the cloud in a new cluster; nil for nothing.
	Discovery *Discovery
}

// Discovery describes the query that the operator sends to the cloud before it fills the driver's ConfigMap for the first time. The
// answer changes nothing in a cluster that already has the ConfigMap, even if another operator created it. The code of the query is in
// drivers/NAME/controller.
type Discovery struct {
	// Secret names the Secret, in the driver's namespace, with the credentials for the cloud.
	Secret string
	// Needed reports whether a query is needed, because neither the cloud's ConfigMap nor Source has the answer.
	Needed func(config, source map[string]string) bool
}

// AsksCloud reports whether the driver's operator itself calls the cloud.
func (d Driver) AsksCloud() bool {
	return d.Backend != nil || d.CloudAccess != nil || d.CloudConfig != nil && d.CloudConfig.Discovery != nil
}

// CloudCABundle returns the CloudConfig of a driver that needs only the cloud's CA bundle. A cloud may have none.
func CloudCABundle(configMap string) *CloudConfig {
	return &CloudConfig{ConfigMap: configMap, Content: func(cloud, _, _ map[string]string) (map[string]string, error) {
		bundle := cloud[CABundleKey]
		if bundle == "" {
			return nil, nil
		}
		return map[string]string{CABundleKey: bundle}, CheckCABundle(bundle)
	}}
}

// CheckCABundle fails unless the CA bundle from the cloud's configuration contains a certificate.
func CheckCABundle(bundle string) error {
	if HasCertificate(bundle) {
		return nil
	}
	return fmt.Errorf("ConfigMap %s/%s, key %s: found no certificate, want the CA bundle of the cloud in PEM format. "+
		"Correct the ConfigMap in namespace openshift-config that the Infrastructure cluster names in spec.cloudConfig",
		CloudConfigNamespace, CloudConfigName, CABundleKey)
}

// Authorities returns the system's certificate authorities, plus the authorities of a bundle in PEM format.
func Authorities(bundle string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's certificate authorities: %w", err)
	}
	pool.AppendCertsFromPEM([]byte(bundle))
	return pool, nil
}

// HasCertificate reports whether a text in PEM format contains a certificate.
func HasCertificate(bundle string) bool { return x509.NewCertPool().AppendCertsFromPEM([]byte(bundle)) }
