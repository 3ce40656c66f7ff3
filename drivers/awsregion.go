package drivers

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// FIPSEndpointEnv is the variable that makes the AWS SDK call AWS's FIPS endpoints. An administrator sets it for the operator, which
// passes it on to the driver.
const FIPSEndpointEnv = "AWS_USE_FIPS_ENDPOINT"

// AWSRegion says how to tell a driver its region. AWS may have special endpoints and a private CA in that region.
type AWSRegion struct {
	// Endpoints maps the name of an AWS service in the Infrastructure to the driver's environment variable for the endpoint of that
	// service.
	Endpoints map[string]string
	// CAFile is where the container's asset mounts the CA bundle of the cloud.
	CAFile string
}

// Apply tells a container the region and, in regions with special endpoints, the addresses of AWS's services and the CA
// to trust. It is a Setting.
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
	var custom []string
	for _, endpoint := range platform.AWS.ServiceEndpoints {
		if name, used := r.Endpoints[endpoint.Name]; used {
			set(name, endpoint.URL)
			custom = append(custom, endpoint.Name)
		}
	}
	if wanted := cluster.Environment[FIPSEndpointEnv]; wanted != "" && !strings.EqualFold(wanted, "false") {
		if why := fipsUnusable(wanted, platform.AWS.Region, custom); why != "" {
			leftOut = append(leftOut, fmt.Sprintf("the operator's environment variable %s has no effect: %s", FIPSEndpointEnv, why))
		} else {
			set(FIPSEndpointEnv, "true")
		}
	}
	if cluster.CloudConfig[CABundleKey] != "" {
		set("AWS_CA_BUNDLE", r.CAFile)
	}
	return leftOut
}

// fipsUnusable returns why a driver cannot use FIPS endpoints, or "" if it can. If AWS has no FIPS endpoint in the region, the variable
// makes the EFS driver exit. If a service has a custom endpoint, the SDK refuses each call: "FIPS and custom endpoint are not supported".
func fipsUnusable(wanted, region string, custom []string) string {
	switch {
	case !strings.EqualFold(wanted, "true"):
		return fmt.Sprintf("it is %q, want true or false", wanted)
	case !strings.HasPrefix(region, "us-") && !strings.HasPrefix(region, "ca-"):
		return fmt.Sprintf("AWS has FIPS endpoints in the United States and Canada, and the region is %q", region)
	case len(custom) > 0:
		return fmt.Sprintf("spec.platformSpec.aws.serviceEndpoints of Infrastructure cluster names the endpoints of %s, which are used as they are", strings.Join(custom, ", "))
	}
	return ""
}
