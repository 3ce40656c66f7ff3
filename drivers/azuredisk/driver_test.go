package azuredisk

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/drivers"
)

func TestParameters(t *testing.T) {
	azure := &configv1.Infrastructure{Status: configv1.InfrastructureStatus{
		InfrastructureName: "berth", PlatformStatus: &configv1.PlatformStatus{Azure: &configv1.AzurePlatformStatus{}}}}
	keys := &operatorv1.AzureCSIDriverConfigSpec{DiskEncryptionSet: &operatorv1.AzureDiskEncryptionSet{SubscriptionID: "s", ResourceGroup: "g", Name: "n"}}
	const set = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/diskEncryptionSets/n"
	tags := map[string]string{"tags": "kubernetes.io_cluster.berth=owned", "tagValueDelimiter": "|"}
	for name, test := range map[string]struct {
		infrastructure *configv1.Infrastructure
		config         *operatorv1.AzureCSIDriverConfigSpec
		want           map[string]string
	}{
		"tags":                {infrastructure: azure, want: tags},
		"nothing of the keys": {infrastructure: azure, config: &operatorv1.AzureCSIDriverConfigSpec{}, want: tags},
		"keys":                {infrastructure: azure, config: keys, want: map[string]string{"tags": tags["tags"], "tagValueDelimiter": "|", "diskEncryptionSetID": set}},
		"keys without tags":   {infrastructure: &configv1.Infrastructure{}, config: keys, want: map[string]string{"diskEncryptionSetID": set}},
	} {
		t.Run(name, func(t *testing.T) {
			custom := &operatorv1.ClusterCSIDriver{}
			custom.Spec.DriverConfig.Azure = test.config
			assert.Equal(t, test.want, parameters(drivers.Cluster{Infrastructure: test.infrastructure, ClusterCSIDriver: custom}), "parameters")
		})
	}
}

// TestSnapshotParameters: snapshots are tagged, and on an Azure Stack, which knows no incremental ones, they are whole.
func TestSnapshotParameters(t *testing.T) {
	for cloud, want := range map[configv1.AzureCloudEnvironment]map[string]string{
		configv1.AzurePublicCloud: {"tags": "kubernetes.io_cluster.berth=owned", "tagValueDelimiter": "|"},
		configv1.AzureStackCloud:  {"tags": "kubernetes.io_cluster.berth=owned", "tagValueDelimiter": "|", "incremental": "false"},
	} {
		got := Driver.SnapshotParameters(drivers.Cluster{Infrastructure: &configv1.Infrastructure{Status: configv1.InfrastructureStatus{
			InfrastructureName: "berth", PlatformStatus: &configv1.PlatformStatus{Azure: &configv1.AzurePlatformStatus{CloudName: cloud}}}}})
		assert.Emptyf(t, cmp.Diff(want, got), "%s: parameters of snapshots (-want +got)", cloud)
	}
}
