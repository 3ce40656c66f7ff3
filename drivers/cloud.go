package drivers

import (
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
)

// Cloud is the cluster's information about its cloud. It must not be modified.
type Cloud struct {
	Infrastructure *configv1.Infrastructure
	// Config is the configuration of the cloud. CABundle is the CA bundle of the cloud's endpoints, in PEM format and not checked. Both
	// are "" if there is none, or if the driver has neither a Configuration nor a CloudConfig.
	Config, CABundle string
	// TrustedCABundle has, in PEM format, the certificate authorities that the driver's pods trust instead of the authorities in their
	// images: the system's, and those that the cluster trusts. It is "" until they are known.
	TrustedCABundle string
	// Credentials is the content of the Secret with the driver's credentials.
	Credentials map[string][]byte
	// Namespace is the driver's.
	Namespace string
	// DriverConfig is spec.driverConfig of the driver's ClusterCSIDriver.
	DriverConfig operatorv1.CSIDriverConfigSpec
}

// Configuration is for a driver that reads the cloud's configuration and the credentials from one file. One of the
// driver's own controllers writes the file.
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
