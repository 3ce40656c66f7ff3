// Package vsphere defines the vSphere CSI driver.
package vsphere

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

//go:embed assets
var files embed.FS

const (
	csiName = "csi.vsphere.vmware.com"
	// cloudSecret is the Secret in which the cloud credential operator provides credentials.
	cloudSecret = "vmware-vsphere-cloud-credentials"
	// configSecret is the Secret with the driver's configuration.
	configSecret = "vsphere-csi-config-secret"
	// className is the name of the StorageClass.
	className = "thin-csi"
)

// Driver is the vSphere CSI driver. Its objects keep the names that OpenShift's own operator gave them.
var Driver = drivers.Driver{
	Name:            "vsphere",
	CSIName:         csiName,
	ConditionPrefix: "VSphere",

	Operator: drivers.Operator{
		Name:  "vmware-vsphere-csi-driver-operator",
		Lock:  "vmware-vsphere-csi-driver-operator-leader",
		Image: "quay.io/berth-csi/berth-operator:v1.0.0",
	},
	Namespace: drivers.ClusterStorageNamespace,
	InTree:    drivers.InTree{Source: "vsphereVolume", Plugin: "kubernetes.io/vsphere-volume", Gate: "CSIMigrationvSphere", Preview: "4.10.0", Migrated: "4.13.0"},
	Backend: &drivers.Backend{
		Name:     "vCenter",
		Kind:     "supported version",
		Secret:   cloudSecret,
		Interval: 10 * time.Minute,
	},
	Configuration: &drivers.Configuration{Secret: configSecret, Credentials: cloudSecret},

	Assets: drivers.Folder(files, "assets"),
	Images: []drivers.Image{
		{Env: "DRIVER_IMAGE", Default: "quay.io/openshift/origin-vsphere-csi-driver:4.21"},
		{Env: "SYNCER_IMAGE", Default: "quay.io/openshift/origin-vsphere-csi-driver-syncer:4.21"},
		drivers.ProvisionerImage, drivers.AttacherImage, drivers.ResizerImage, drivers.SnapshotterImage,
		drivers.NodeDriverRegistrarImage, drivers.LivenessProbeImage, drivers.KubeRBACProxyImage,
	},
	Settings: []drivers.Setting{
		{Container: "vsphere-plugin", Apply: maxVolumes},
		{Container: "csi-provisioner", Apply: strictTopology},
	},
	ConfigFields: drivers.ConfigFields{Type: operatorv1.VSphereDriverType, Fields: []string{
		"vSphere.topologyCategories", "vSphere.maxAllowedBlockVolumesPerNode", "vSphere.globalMaxSnapshotsPerBlockVolume",
		"vSphere.granularMaxSnapshotsPerBlockVolumeInVSAN", "vSphere.granularMaxSnapshotsPerBlockVolumeInVVOL",
	}},
	Secrets:         []string{cloudSecret},
	TrustedCABundle: "vmware-vsphere-csi-driver-trusted-ca-bundle",
	ClusterStorage: &drivers.ClusterStorage{
		Platform: configv1.VSpherePlatformType, Optional: true, Without: notAskedFor, DefaultClass: className, DefaultSnapshotClass: "csi-vsphere-vsc",
	},
	Certification: drivers.Certification{
		Class: className, SnapshotClass: "csi-vsphere-vsc",
		MinSize: "1Gi", MaxSize: "62Ti", FileSystems: []string{"ext4", "xfs"}, MountOptions: []string{"dirsync"},
	},
}

// notAskedFor returns why a cluster does not get the driver: nobody has asked for it.
func notAskedFor(platform drivers.Platform) string {
	if platform.Installed || platform.Storage.VSphereStorageDriver == operatorv1.CSIWithMigrationDriver {
		return ""
	}
	return "it is optional, and nobody has asked for it; create ClusterCSIDriver " + csiName +
		" with spec.managementState Managed, or set spec.vsphereStorageDriver of Storage cluster to CSIWithMigrationDriver"
}

// maxVolumes tells the driver how many volumes a node can have. Versions of ESXi before 8 allow 59.
func maxVolumes(cluster drivers.Cluster, container *corev1.Container) []string {
	limit := 59
	if config := cluster.ClusterCSIDriver.Spec.DriverConfig.VSphere; config != nil && config.MaxAllowedBlockVolumesPerNode > 0 {
		limit = int(config.MaxAllowedBlockVolumesPerNode)
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: "MAX_VOLUMES_PER_NODE", Value: strconv.Itoa(limit)})
	return nil
}

// strictTopology makes the provisioner create volumes where the nodes can reach them, if the cluster has zones. Without
// zones, the driver reports no topology, and the provisioner would wait for one.
func strictTopology(cluster drivers.Cluster, container *corev1.Container) (leftOut []string) {
	config := cluster.ClusterCSIDriver.Spec.DriverConfig
	categories := TopologyCategories(cluster.Infrastructure, config)
	if len(categories) == 0 {
		return nil
	}
	if config.VSphere != nil && len(config.VSphere.TopologyCategories) > 0 && !slices.Equal(config.VSphere.TopologyCategories, categories) {
		leftOut = append(leftOut, fmt.Sprintf("spec.driverConfig.vSphere.topologyCategories of ClusterCSIDriver %s has no effect: "+
			"Infrastructure cluster has several failure domains, whose categories are %s.", csiName, strings.Join(categories, " and ")))
	}
	for i, arg := range container.Args {
		if arg == "--feature-gates=Topology=false" {
			container.Args[i] = "--feature-gates=Topology=true"
		}
	}
	container.Args = append(container.Args, "--strict-topology")
	return leftOut
}

// TopologyCategories returns the categories of vCenter's tags for regions and zones: the installer's categories if the
// cluster has several failure domains, otherwise the administrator's.
func TopologyCategories(infrastructure *configv1.Infrastructure, config operatorv1.CSIDriverConfigSpec) []string {
	switch {
	case infrastructure != nil && infrastructure.Spec.PlatformSpec.VSphere != nil && len(infrastructure.Spec.PlatformSpec.VSphere.FailureDomains) > 1:
		return []string{"openshift-region", "openshift-zone"}
	case config.VSphere != nil:
		return config.VSphere.TopologyCategories
	}
	return nil
}
