// Package azurefile defines the Azure File CSI driver.
package azurefile

import (
	"embed"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/berth-csi/berth/drivers"
)

//go:embed assets
var files embed.FS

// cloudConfigFolder is where the driver's containers mount the configuration of the cloud.
const cloudConfigFolder = "/etc/cloud-config"

// Driver is the Azure File CSI driver. Its objects keep the names that OpenShift's own operator gave them, so that volumes
// and scripts find them.
var Driver = drivers.Driver{
	Name:            "azurefile",
	CSIName:         "file.csi.azure.com",
	ConditionPrefix: "AzureFile",

	Operator: drivers.Operator{
		Name:  "azure-file-csi-driver-operator",
		Lock:  "azure-file-csi-driver-operator-leader",
		Image: "quay.io/berth-csi/berth-operator:v1.0.0",
	},

	Namespace: drivers.ClusterStorageNamespace,
	InTree:    drivers.InTree{Source: "azureFile", Plugin: "kubernetes.io/azure-file", Gate: "CSIMigrationAzureFile", Preview: "4.10.0", Migrated: "4.13.0"},

	Assets: drivers.Folder(files, "assets"),
	Images: []drivers.Image{
		{Env: "DRIVER_IMAGE", Default: "quay.io/openshift/origin-azure-file-csi-driver:4.21"},
		drivers.AzureCredentialsInjectorImage,
		drivers.ProvisionerImage, drivers.ResizerImage, drivers.SnapshotterImage,
		drivers.NodeDriverRegistrarImage, drivers.LivenessProbeImage, drivers.KubeRBACProxyImage,
	},
	Settings: []drivers.Setting{
		{Container: "csi-driver", Apply: drivers.AzureEndpoints(cloudConfigFolder)},
		{Container: "csi-node-driver", Apply: drivers.AzureEndpoints(cloudConfigFolder)},
	},
	ConfigFields:    drivers.ConfigFields{Type: operatorv1.AzureDriverType},
	ClassParameters: parameters,
	ClassRisk:       sharedShare,
	Secrets:         []string{"azure-file-credentials"},
	CredentialKeys:  drivers.AzureCredentialKeys,
	TrustedCABundle: "azure-file-csi-driver-trusted-ca-bundle",
	CloudConfig:     drivers.AzureCloudConfig("azure-file-csi-driver-cloud-config"),
	ClusterStorage:  &drivers.ClusterStorage{Platform: configv1.AzurePlatformType, Without: without},
	Certification: drivers.Certification{
		Class: "azurefile-csi", SnapshotClass: "csi-azurefile-vsc",
		MinSize: "1Gi", MaxSize: "100Ti",
		Clones:     true,
		MountGroup: true,
	},
}

// without returns why a cluster on Azure Stack does not get the driver: an Azure Stack has no file shares. A cluster that has the driver
// keeps it.
func without(platform drivers.Platform) string {
	if platform.Installed || !drivers.IsAzureStack(platform.Infrastructure) {
		return ""
	}
	return "an Azure Stack has no file shares"
}

// parameters makes the driver tag the storage accounts of new shares, so that it finds the accounts of this class and
// cluster. Snapshots are in the accounts of their shares, and the driver refuses tags for them.
func parameters(cluster drivers.Cluster) map[string]string {
	return drivers.AzureTags(cluster.Infrastructure, "storageClassName=azurefile-csi")
}
