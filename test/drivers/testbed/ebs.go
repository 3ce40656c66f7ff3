package testbed

import (
	"fmt"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/test/aws"
	"github.com/berth-csi/berth/test/aws/disks"
	"github.com/berth-csi/berth/test/cluster"
)

// EBS is a testbed with the EBS driver. Its volumes are devices of the nodes.
type EBS struct {
	*Testbed
	Region *AWS
}

// StartEBS starts a testbed with the EBS driver, and the API of snapshots, in a region with the options and tags. The driver
// has a key pair or, if tokens is set, a role that it assumes with its service account's token.
func StartEBS(t testing.TB, driver drivers.Driver, options aws.Options, tokens bool, tags ...configv1.AWSResourceTag) *EBS {
	t.Helper()
	cluster.NeedRealNodes(t)
	bed := &EBS{}
	devices := disks.New(bed.rootOf)
	t.Cleanup(func() {
		if err := devices.Close(); err != nil {
			t.Error(err)
		}
	})
	options.Disks = devices
	bed.Region = StartAWS(t, driver, options)
	bed.Region.Tags = tags
	of := Options{Driver: driver, Snapshots: true}
	if tokens {
		for _, role := range bed.Region.UseTokens() {
			of.Env = append(of.Env, corev1.EnvVar{Name: "ROLEARN", Value: role})
		}
	}
	of.Cloud = bed.Region.Options()
	bed.Testbed = Start(t, of)
	return bed
}

// rootOf returns the root folder of the node that is an instance.
func (b *EBS) rootOf(instance string) (string, error) {
	for i, node := range Nodes {
		if b.Region.Instances[i].ID == instance {
			return b.NodeRoot(node)
		}
	}
	return "", fmt.Errorf("no node is the instance %s", instance)
}
