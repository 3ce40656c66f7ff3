package azurefile

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

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

// TestSharedShare: a class is a risk if claims of different namespaces can get the same share.
func TestSharedShare(t *testing.T) {
	retain := corev1.PersistentVolumeReclaimRetain
	for name, test := range map[string]struct {
		parameters map[string]string
		policy     *corev1.PersistentVolumeReclaimPolicy
		want       string
	}{
		"a share for each claim":            {parameters: map[string]string{"skuName": "Standard_LRS"}},
		"an empty name":                     {parameters: map[string]string{"shareName": ""}},
		"one for each volume":               {parameters: map[string]string{"shareName": "team-${pv.metadata.name}"}},
		"one share":                         {parameters: map[string]string{"shareName": "all"}, want: "deletes the files of all"},
		"one share, as the driver reads it": {parameters: map[string]string{"sharename": "all"}, want: "deletes the files of all"},
		"one for each name of a claim":      {parameters: map[string]string{"shareName": "${pvc.metadata.name}"}, want: "deletes the files of all"},
		// Namespace shop with claim a-b, and namespace shop-a with claim b.
		"names that run together":   {parameters: map[string]string{"shareName": "${pvc.metadata.namespace}-${pvc.metadata.name}"}, want: "deletes the files of all"},
		"one share, which is kept":  {parameters: map[string]string{"shareName": "all"}, policy: &retain, want: "any team can read"},
		"a kept one of each volume": {parameters: map[string]string{"shareName": "${pv.metadata.name}"}, policy: &retain},
	} {
		got := Driver.ClassRisk(&storagev1.StorageClass{Parameters: test.parameters, ReclaimPolicy: test.policy})
		assert.Contains(t, got, test.want, name)
		assert.Equalf(t, test.want == "", got == "", "%s has no risk", name)
	}
}
