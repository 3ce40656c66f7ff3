package azurefile

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/drivers"
)

func infrastructure(cloud configv1.AzureCloudEnvironment) *configv1.Infrastructure {
	return &configv1.Infrastructure{Status: configv1.InfrastructureStatus{
		InfrastructureName: "berth", PlatformStatus: &configv1.PlatformStatus{Azure: &configv1.AzurePlatformStatus{CloudName: cloud}}}}
}

// TestWithout: an Azure Stack does not get the driver, unless it has it.
func TestWithout(t *testing.T) {
	const none = "an Azure Stack has no file shares"
	for name, test := range map[string]struct {
		platform drivers.Platform
		want     string
	}{
		"public cloud":             {platform: drivers.Platform{Infrastructure: infrastructure(configv1.AzurePublicCloud)}},
		"no name":                  {platform: drivers.Platform{Infrastructure: infrastructure("")}},
		"Azure Stack":              {platform: drivers.Platform{Infrastructure: infrastructure(configv1.AzureStackCloud)}, want: none},
		"Azure Stack that has one": {platform: drivers.Platform{Infrastructure: infrastructure(configv1.AzureStackCloud), Installed: true}},
	} {
		assert.EqualValues(t, test.want, Driver.ClusterStorage.Without(test.platform), name)
	}
}

// TestParameters: the driver looks for the storage account of this class and this cluster.
func TestParameters(t *testing.T) {
	got := parameters(drivers.Cluster{Infrastructure: infrastructure("")})["tags"]
	assert.Equal(t, "kubernetes.io_cluster.berth=owned|storageClassName=azurefile-csi", got, "tags")
}
