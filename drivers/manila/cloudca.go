package manila

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// cloudCAName is the driver's ConfigMap with the CA bundle of the cloud's configuration.
const cloudCAName = "manila-csi-driver-cloud-ca"

// Volumes of the pods, each with the CA bundle of a cloud that has its own, under the names of clouds.yaml and of OpenShift 4.5.
const (
	credentialsCA = "cloud-ca"        // from the credentials
	configCA      = "cloud-config-ca" // from the cloud's configuration
)

// mountCA mounts the CA bundle of the cloud's configuration, if that has one, in place of the one in the credentials. The cloud
// credential operator has copied it to the credentials only since OpenShift 4.19; clouds.yaml refers to it in all versions.
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
