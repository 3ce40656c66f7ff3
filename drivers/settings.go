package drivers

import (
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
)

// Cluster is the observed configuration of the cluster. It must not be modified.
type Cluster struct {
	Infrastructure   *configv1.Infrastructure
	ClusterCSIDriver *operatorv1.ClusterCSIDriver // the driver's own
	// CloudConfig is the content of the driver's own ConfigMap with the configuration of the cloud.
	CloudConfig map[string]string
	// Environment has the variables of Operator.Env that an administrator has set for the operator.
	Environment map[string]string
}

// Setting applies a piece of the cluster's configuration to one of the driver's containers, in a way that is specific
// to this driver. The operator handles what is common to all drivers, such as proxy and log level.
type Setting struct {
	// Container is the name of the container, in any of the driver's pods.
	Container string
	// Apply changes the container that the asset defines. It is a pure function, and its result is stable, because a
	// change would roll the pods. It leaves out requests of the cluster that the driver cannot fulfil, and returns a
	// sentence about each.
	Apply func(cluster Cluster, container *corev1.Container) (leftOut []string)
}

// Configure applies the driver's settings to one of its pods and its containers.
func (d Driver) Configure(pod *corev1.PodSpec, cluster Cluster) {
	setDNSPolicy(cluster, pod)
	for _, setting := range d.Settings {
		for i := range pod.Containers {
			if pod.Containers[i].Name == setting.Container {
				setting.Apply(cluster, &pod.Containers[i])
			}
		}
	}
}

// LeftOut returns a sentence about each request of the cluster that the driver cannot fulfil.
func (d Driver) LeftOut(cluster Cluster) []string {
	leftOut := d.withoutEffect(cluster.ClusterCSIDriver)
	for _, setting := range d.Settings {
		leftOut = append(leftOut, setting.Apply(cluster, &corev1.Container{})...)
	}
	return append(leftOut, setDNSPolicy(cluster, &corev1.PodSpec{})...)
}
