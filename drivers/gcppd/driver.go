// Package gcppd defines the GCP PD CSI driver.
package gcppd

import (
	"cmp"
	"embed"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/berth-csi/berth/drivers"
)

//go:embed assets
var files embed.FS

// Driver is the GCP PD CSI driver. Its objects keep the names that OpenShift's own operator gave them, so that volumes
// and scripts find them.
var Driver = drivers.Driver{
	Name:            "gcppd",
	CSIName:         "pd.csi.storage.gke.io",
	ConditionPrefix: "GCPPD",

	Operator: drivers.Operator{
		Name:  "gcp-pd-csi-driver-operator",
		Lock:  "gcp-pd-csi-driver-operator-leader",
		Image: "quay.io/berth-csi/berth-operator:v1.0.0",
	},

	Namespace: drivers.ClusterStorageNamespace,
	InTree:    drivers.InTree{Source: "gcePersistentDisk", Plugin: "kubernetes.io/gce-pd", Gate: "CSIMigrationGCE", Preview: "4.9.0", Migrated: "4.12.0"},

	Assets: drivers.Folder(files, "assets"),
	Images: []drivers.Image{
		{Env: "DRIVER_IMAGE", Default: "quay.io/openshift/origin-gcp-pd-csi-driver:4.21"},
		drivers.ProvisionerImage, drivers.AttacherImage, drivers.ResizerImage, drivers.SnapshotterImage,
		drivers.NodeDriverRegistrarImage, drivers.LivenessProbeImage, drivers.KubeRBACProxyImage,
	},
	Settings: []drivers.Setting{
		{Container: "csi-driver", Apply: labelDisks},
	},
	ConfigFields:       drivers.ConfigFields{Type: operatorv1.GCPDriverType, Fields: []string{"gcp.kmsKey"}},
	ClassParameters:    encryptionKey,
	SnapshotParameters: labelSnapshots,
	Secrets:            []string{"gcp-pd-cloud-credentials"},
	CredentialKeys:     [][]string{{"service_account.json"}},
	TrustedCABundle:    "gcp-pd-csi-driver-trusted-ca-bundle",
	ClusterStorage:     &drivers.ClusterStorage{Platform: configv1.GCPPlatformType, DefaultSnapshotClass: "csi-gce-pd-vsc"},
	Certification: drivers.Certification{
		Class: "standard-csi", SnapshotClass: "csi-gce-pd-vsc",
		MinSize: "1Gi", MaxSize: "64Ti", FileSystems: []string{"ext4", "xfs"}, MountOptions: []string{"dirsync"},
		TopologyKeys: []string{"topology.gke.io/zone"},
		Clones:       true,
	},
}

// encryptionKey encrypts new volumes with the administrator's key instead of one that Google manages.
func encryptionKey(cluster drivers.Cluster) map[string]string {
	gcp := cluster.ClusterCSIDriver.Spec.DriverConfig.GCP
	if gcp == nil || gcp.KMSKey == nil {
		return nil
	}
	key := gcp.KMSKey
	return map[string]string{"disk-encryption-kms-key": fmt.Sprintf("projects/%s/locations/%s/keyRings/%s/cryptoKeys/%s",
		key.ProjectID, cmp.Or(key.Location, "global"), key.KeyRing, key.Name)}
}
