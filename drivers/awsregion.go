package drivers

import corev1 "k8s.io/api/core/v1"

// AWSRegion says how a driver learns which region it is in, in which AWS may have endpoints and a CA of its own.
type AWSRegion struct {
	// Endpoints are the environment variables with the endpoints of AWS's services for the driver, by the name of the
	// service in the Infrastructure.
	Endpoints map[string]string
	// CAFile is where the container's asset mounts the CA bundle of the cloud.
	CAFile string
}

// Apply tells a container the region and, in regions with endpoints of their own, where the services of AWS are and whose
// certificates to trust. It is a Setting.
func (r AWSRegion) Apply(cluster Cluster, container *corev1.Container) (leftOut []string) {
	platform := cluster.Infrastructure.Status.PlatformStatus
	if platform == nil || platform.AWS == nil {
		return nil
	}
	set := func(name, value string) {
		if value != "" {
			container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	set("AWS_REGION", platform.AWS.Region)
	for _, endpoint := range platform.AWS.ServiceEndpoints {
		if name, used := r.Endpoints[endpoint.Name]; used {
			set(name, endpoint.URL)
		}
	}
	if cluster.CloudConfig[CABundleKey] != "" {
		set("AWS_CA_BUNDLE", r.CAFile)
	}
	return nil
}
