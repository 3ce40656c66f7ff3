package drivers

import (
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
)

// Cluster is what an operator has observed of the cluster's configuration. It is not to be changed.
type Cluster struct {
	Infrastructure   *configv1.Infrastructure
	ClusterCSIDriver *operatorv1.ClusterCSIDriver // the driver's own
}

// Setting carries a piece of the cluster's configuration to one container of a driver: such pieces as
// are particular to the driver. What all drivers follow, such as proxy and log level, is the operator's.
type Setting struct {
	// Container is the name of the container, in whichever of the driver's pods it is.
	Container string
	// Apply changes the container that its asset describes. It depends on nothing but its arguments and
	// does the same each time, as a difference rolls the pods. It returns, a sentence each, what the
	// cluster asks for and the driver cannot do; that has been left out then.
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

// LeftOut returns, a sentence each, what the cluster asks for and the driver cannot do.
func (d Driver) LeftOut(cluster Cluster) []string {
	var leftOut []string
	for _, setting := range d.Settings {
		leftOut = append(leftOut, setting.Apply(cluster, &corev1.Container{})...)
	}
	return leftOut
}
