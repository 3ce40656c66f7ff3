package manila

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// cloudCAName is the driver's ConfigMap with the CA bundle of the cloud's configuration.
const cloudCAName = "manila-csi-driver-cloud-ca"

// Volumes of the pods, each with the CA bundle of a cloud with a private CA, under the file names that clouds.yaml and
// OpenShift 4.5 use.
const (
	credentialsCA = "cloud-ca"        // from the credentials
	configCA      = "cloud-config-ca" // from the cloud's configuration
)

// mountCA mounts the CA bundle of the cloud's configuration, if there is one, in place of the bundle in the
// credentials. The cloud credential operator copies it to the credentials only since OpenShift 4.19, but clouds.yaml
// refers to it in all versions.
func mountCA(cluster drivers.Cluster, container *corev1.Container) (leftOut []string) {
	if cluster.CloudConfig[drivers.CABundleKey] == "" {
		return nil
	}
	for i := range container.VolumeMounts {
		if mount := &container.VolumeMounts[i]; mount.Name == credentialsCA {
			mount.Name = configCA
		}
	}
	return nil
}
