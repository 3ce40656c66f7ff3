package drivers

import (
	"crypto/x509"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
)

// The ConfigMap in which OpenShift publishes the configuration of the cloud, and its key for the CA bundle of the cloud's
// endpoints. The installer fills that from additionalTrustBundle. Only administrators can write to that namespace.
const (
	CloudConfigNamespace = "openshift-config-managed"
	CloudConfigName      = "kube-cloud-config"
	CABundleKey          = "ca-bundle.pem"
)

// CheckCABundle fails unless what that ConfigMap has as the CA bundle has a certificate.
func CheckCABundle(bundle string) error {
	if x509.NewCertPool().AppendCertsFromPEM([]byte(bundle)) {
		return nil
	}
	return fmt.Errorf("ConfigMap %s/%s, key %s: found no certificate, want the CA bundle of the cloud in PEM format. "+
		"Correct the ConfigMap in namespace openshift-config that the Infrastructure cluster names in spec.cloudConfig",
		CloudConfigNamespace, CloudConfigName, CABundleKey)
}

// Cluster is the observed configuration of the cluster. It must not be modified.
type Cluster struct {
	Infrastructure   *configv1.Infrastructure
	ClusterCSIDriver *operatorv1.ClusterCSIDriver // the driver's own
	// CloudCABundle is the content of the driver's ConfigMap of that name, in PEM; "" if the cloud has no CA of its own.
	CloudCABundle string
	// Environment has those variables of Operator.Env that an administrator has set for the operator.
	Environment map[string]string
}

// Setting applies a piece of the cluster's configuration to one of the driver's containers, in a way that is specific
// to this driver. The operator handles what is common to all drivers, such as proxy and log level.
type Setting struct {
	// Container is the name of the container, in any of the driver's pods.
	Container string
	// Apply changes the container that the asset defines. It is a pure function and its result is stable, as a change
	// would roll the pods. It returns a sentence for each thing that the cluster asks for and the driver cannot do;
	// that is left out.
	Apply func(cluster Cluster, container *corev1.Container) (leftOut []string)
}

// Configure applies the driver's settings to the containers of one of its pods.
func (d Driver) Configure(pod *corev1.PodSpec, cluster Cluster) {
	for _, setting := range d.Settings {
		for i := range pod.Containers {
			if pod.Containers[i].Name == setting.Container {
				setting.Apply(cluster, &pod.Containers[i])
			}
		}
	}
}

// LeftOut returns a sentence for each thing that the cluster asks for and the driver cannot do.
func (d Driver) LeftOut(cluster Cluster) []string {
	var leftOut []string
	for _, setting := range d.Settings {
		leftOut = append(leftOut, setting.Apply(cluster, &corev1.Container{})...)
	}
	return leftOut
}
