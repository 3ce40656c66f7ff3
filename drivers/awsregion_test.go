package drivers_test

import (
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// TestFIPSEndpoints: an administrator makes a driver use AWS's FIPS endpoints, where there are any. Elsewhere the driver would not start,
// or AWS's SDK refuse each call.
func TestFIPSEndpoints(t *testing.T) {
	region := drivers.AWSRegion{Endpoints: map[string]string{"ec2": "AWS_EC2_ENDPOINT"}}
	for _, tc := range []struct {
		name, wanted, region string
		endpoints            []configv1.AWSServiceEndpoint
		leftOut              string // a part of the condition's message
		set                  bool
	}{
		{name: "not asked for", region: "us-east-1"},
		{name: "declined", wanted: "false", region: "us-east-1"},
		{name: "in the United States", wanted: "true", region: "us-gov-west-1", set: true},
		{name: "in Canada", wanted: "TRUE", region: "ca-central-1", set: true},
		{name: "elsewhere", wanted: "true", region: "eu-central-1", leftOut: `the region is "eu-central-1"`},
		{name: "not a boolean", wanted: "yes", region: "us-east-1", leftOut: `it is "yes", want true or false`},
		{name: "an endpoint of the cluster's own", wanted: "true", region: "us-east-1", leftOut: "names the endpoints of ec2",
			endpoints: []configv1.AWSServiceEndpoint{{Name: "ec2", URL: "https://ec2.example.com"}}},
		{name: "an endpoint that the driver does not use", wanted: "true", region: "us-east-1", set: true,
			endpoints: []configv1.AWSServiceEndpoint{{Name: "iam", URL: "https://iam.example.com"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			infrastructure := &configv1.Infrastructure{}
			infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{AWS: &configv1.AWSPlatformStatus{Region: tc.region, ServiceEndpoints: tc.endpoints}}
			container := &corev1.Container{}
			leftOut := strings.Join(region.Apply(drivers.Cluster{Infrastructure: infrastructure,
				Environment: map[string]string{drivers.FIPSEndpointEnv: tc.wanted}}, container), "; ")
			set := false
			for _, env := range container.Env {
				set = set || env.Name == drivers.FIPSEndpointEnv && env.Value == "true"
			}
			if set != tc.set || !strings.Contains(leftOut, tc.leftOut) || (leftOut == "") != (tc.leftOut == "") {
				t.Errorf("set: %v, left out: %q; want %v and %q", set, leftOut, tc.set, tc.leftOut)
			}
		})
	}
}
