package drivers

import (
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
)

// Cloud is what the cluster knows of its cloud. It must not be modified.
type Cloud struct {
	Infrastructure *configv1.Infrastructure
	// Config is the configuration of the cloud, and CABundle that of its endpoints, in PEM format and not checked; "" if there is
	// none, or if the driver has neither a Configuration nor a CloudConfig.
	Config, CABundle string
	// TrustedCABundle has the certificate authorities that the driver's pods trust in place of those of their images: the system's and
	// those that the cluster trusts, in PEM format; "" until they are known.
	TrustedCABundle string
	// Credentials is the content of the Secret with the driver's credentials.
	Credentials map[string][]byte
	// Namespace is the driver's.
	Namespace string
	// DriverConfig is spec.driverConfig of the driver's ClusterCSIDriver.
	DriverConfig operatorv1.CSIDriverConfigSpec
}

// Configuration is the configuration of a driver that has what is in the cloud's configuration and the credentials in one
// file. A controller of the driver's own makes it.
type Configuration struct {
	// Secret names the Secret among the assets that the controller fills. Pods that mount it roll when it changes.
	Secret string
	// Credentials names the Secret with the driver's credentials.
	Credentials string
}

// PodSecrets returns the Secrets whose change must roll the pods that mount them.
func (d Driver) PodSecrets() []string {
	if d.Configuration == nil {
		return d.Secrets
	}
	return append(slices.Clone(d.Secrets), d.Configuration.Secret)
}
