// Package azuredisk defines the Azure Disk CSI driver.
package azuredisk

import (
	"embed"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/berth-csi/berth/drivers"
)

//go:embed assets
var files embed.FS

// cloudConfigFolder is where the driver's containers mount the configuration of the cloud.
const cloudConfigFolder = "/etc/cloud-config"

// Driver is the Azure Disk CSI driver. Its objects keep the names that OpenShift's own operator gave them, so that volumes
// and scripts find them.
var Driver = drivers.Driver{
	Name:            "azuredisk",
	CSIName:         "disk.csi.azure.com",
	ConditionPrefix: "AzureDisk",

	Operator: drivers.Operator{
		Name:  "azure-disk-csi-driver-operator",
		Lock:  "azure-disk-csi-driver-operator-leader",
		Image: "quay.io/berth-csi/berth-operator:v1.0.0",
	},

	Namespace: drivers.ClusterStorageNamespace,
	InTree:    drivers.InTree{Source: "azureDisk", Plugin: "kubernetes.io/azure-disk", Gate: "CSIMigrationAzureDisk", Preview: "4.9.0", Migrated: "4.11.0"},

	Assets: drivers.Folder(files, "assets"),
	Images: []drivers.Image{
		{Env: "DRIVER_IMAGE", Default: "quay.io/openshift/origin-azure-disk-csi-driver:4.21"},
		drivers.AzureCredentialsInjectorImage,
		drivers.ProvisionerImage, drivers.AttacherImage, drivers.ResizerImage, drivers.SnapshotterImage,
		drivers.NodeDriverRegistrarImage, drivers.LivenessProbeImage, drivers.KubeRBACProxyImage,
	},
	Settings: []drivers.Setting{
		{Container: "csi-driver", Apply: drivers.AzureEndpoints(cloudConfigFolder)},
		{Container: "csi-node-driver", Apply: drivers.AzureEndpoints(cloudConfigFolder)},
	},
	ConfigFields:       drivers.ConfigFields{Type: operatorv1.AzureDriverType, Fields: []string{"azure.diskEncryptionSet"}},
	ClassParameters:    parameters,
	SnapshotParameters: snapshotParameters,
	Secrets:            []string{"azure-disk-credentials"},
	CredentialKeys:     drivers.AzureCredentialKeys,
	TrustedCABundle:    "azure-disk-csi-driver-trusted-ca-bundle",
	CloudConfig:        drivers.AzureCloudConfig("azure-disk-csi-driver-cloud-config"),
	ClusterStorage:     &drivers.ClusterStorage{Platform: configv1.AzurePlatformType, DefaultClass: "managed-csi", DefaultSnapshotClass: "csi-azuredisk-vsc"},
	Certification: drivers.Certification{
		Class: "managed-csi", SnapshotClass: "csi-azuredisk-vsc",
		MinSize: "1Gi", MaxSize: "32Ti", FileSystems: []string{"ext4", "xfs"}, MountOptions: []string{"dirsync"},
		TopologyKeys: []string{"topology.disk.csi.azure.com/zone"},
		Clones:       true,
	},
}

// snapshotParameters makes the driver tag new snapshots like disks. It turns off incremental snapshots, the driver's
// default, on an Azure Stack, which does not support them.
func snapshotParameters(cluster drivers.Cluster) map[string]string {
	found := drivers.AzureTags(cluster.Infrastructure)
	if drivers.IsAzureStack(cluster.Infrastructure) {
		found["incremental"] = "false"
	}
	return found
}

// parameters makes the driver tag new disks, and encrypt them with the administrator's keys instead of Azure's.
func parameters(cluster drivers.Cluster) map[string]string {
	found := drivers.AzureTags(cluster.Infrastructure)
	azure := cluster.ClusterCSIDriver.Spec.DriverConfig.Azure
	if azure == nil || azure.DiskEncryptionSet == nil {
		return found
	}
	if found == nil {
		found = map[string]string{}
	}
	set := azure.DiskEncryptionSet
	found["diskEncryptionSetID"] = fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/Microsoft.Compute/diskEncryptionSets/%s", set.SubscriptionID, set.ResourceGroup, set.Name)
	return found
}
