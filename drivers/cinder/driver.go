// Package cinder defines the OpenStack Cinder CSI driver.
package cinder

import (
	"embed"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/berth-csi/berth/drivers"
)

// cloudSecret is the Secret in which the cloud credential operator provides credentials.
const cloudSecret = "openstack-cloud-credentials"

//go:embed assets
var files embed.FS

// Driver is the Cinder CSI driver. Its objects keep the names that OpenShift's own operator gave them. It has no package:
// only the cluster storage operator runs it, on every OpenStack cloud.
var Driver = drivers.Driver{
	Name:            "cinder",
	CSIName:         "cinder.csi.openstack.org",
	ConditionPrefix: "OpenStackCinder",

	Operator: drivers.Operator{
		Name:  "openstack-cinder-csi-driver-operator",
		Lock:  "openstack-cinder-csi-driver-operator-leader",
		Image: "quay.io/berth-csi/berth-operator:v1.0.0",
	},
	Namespace: drivers.ClusterStorageNamespace,
	InTree:    drivers.InTree{Source: "cinder", Plugin: "kubernetes.io/cinder", Gate: "CSIMigrationOpenStack", Preview: "4.8.0", Migrated: "4.11.0"},

	Assets: drivers.Folder(files, "assets"),
	Images: []drivers.Image{
		{Env: "DRIVER_IMAGE", Default: "quay.io/openshift/origin-openstack-cinder-csi-driver:4.21"},
		drivers.ProvisionerImage, drivers.AttacherImage, drivers.ResizerImage, drivers.SnapshotterImage,
		drivers.NodeDriverRegistrarImage, drivers.LivenessProbeImage, drivers.KubeRBACProxyImage,
	},
	Settings: []drivers.Setting{
		{Container: "csi-driver", Apply: topology("--with-topology=")},
		{Container: "csi-provisioner", Apply: topology("--feature-gates=Topology=")},
		{Container: "cinder-plugin", Apply: topology("--with-topology=")},
	},
	Secrets:         []string{cloudSecret},
	TrustedCABundle: "openstack-cinder-csi-driver-trusted-ca-bundle",
	CloudConfig: &drivers.CloudConfig{ConfigMap: "cloud-conf", Source: configName, Content: configFiles,
		Discovery: &drivers.Discovery{Secret: cloudSecret, Needed: zonesUnsaid}},
	ClusterStorage: &drivers.ClusterStorage{Platform: configv1.OpenStackPlatformType, DefaultSnapshotClass: "standard-csi"},
	Certification: drivers.Certification{
		Class: "standard-csi", SnapshotClass: "standard-csi",
		MinSize: "1Gi", MaxSize: "16Ti", FileSystems: []string{"ext4", "xfs"}, MountOptions: []string{"dirsync"},
		Clones: true, // no TopologyKeys: volumes belong to zones only in some clouds
	},
}
