package testbed

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/cluster"
)

// EBS is a testbed with the EBS driver. Its volumes are devices of the nodes.
type EBS struct {
	*Testbed
	Region *AWS
}

// EBSOptions configure a testbed with the EBS driver.
type EBSOptions struct {
	// Region is the options of the region.
	Region aws.Options
	// Tags are the tags that the Infrastructure wants on all resources.
	Tags []configv1.AWSResourceTag
	// Tokens says that the driver has no key pair, but a role, which it assumes with its service account's token.
	Tokens bool
	// BehindProxy says that only a proxy reaches the region.
	BehindProxy bool
	// MorePrograms are as in Options.
	MorePrograms map[string]string
}

// StartEBS starts a testbed with the EBS driver, and the API of snapshots, until the test ends.
func StartEBS(t testing.TB, driver drivers.Driver, options EBSOptions) *EBS {
	t.Helper()
	cluster.NeedRealNodes(t)
	bed := &EBS{}
	bed.Region = StartAWS(t, driver, options.Region)
	bed.Region.Tags = options.Tags
	of := Options{Driver: driver, Snapshots: true, MorePrograms: options.MorePrograms}
	if options.BehindProxy {
		of.BehindProxy = EndpointPort
	}
	if options.Tokens {
		for _, role := range bed.Region.UseTokens() {
			of.Env = append(of.Env, corev1.EnvVar{Name: "ROLEARN", Value: role})
		}
	}
	of.Cloud = bed.Region.Options()
	bed.Testbed = Start(t, of)
	return bed
}
