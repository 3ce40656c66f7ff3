package ebs

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// endpointEnv are the environment variables with which the driver is told where a service of AWS is. The AWS SDK calls
// STS when the driver assumes a role; all other calls of the driver are to EC2.
var endpointEnv = map[string]string{"ec2": "AWS_EC2_ENDPOINT", "sts": "AWS_ENDPOINT_URL_STS"}

// cloudCAFile is where the controller's asset mounts the CA bundle of the cloud.
const cloudCAFile = "/var/run/cloud-ca/" + drivers.CABundleKey

// reachCloud tells the driver which region it is in and, in regions with endpoints of their own, where the services of
// AWS are and whose certificates to trust. Without the region, the driver asks the instance metadata service, which
// answers no pod on the pod network by default, and exits.
func reachCloud(cluster drivers.Cluster, container *corev1.Container) (leftOut []string) {
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
		if name, used := endpointEnv[endpoint.Name]; used {
			set(name, endpoint.URL)
		}
	}
	if cluster.CloudCABundle != "" {
		set("AWS_CA_BUNDLE", cloudCAFile)
	}
	return nil
}
