// Package manila defines the OpenStack Manila CSI driver, for shares that are mounted by NFS.
package manila

import (
	"embed"
	"time"

	"github.com/berth-csi/berth/drivers"
)

//go:embed assets examples
var files embed.FS

//go:embed description.md
var description string

//go:embed icon.svg
var icon []byte

const (
	csiName = "manila.csi.openstack.org"
	// cloudSecret is the Secret with the credentials of the cloud, from the cloud credential operator.
	cloudSecret = "manila-cloud-credentials"
)

// Driver is the Manila CSI driver. Its objects have the names, and its namespace is the one, under which
// OpenShift's own operators have always made them: volumes refer to the Secret there, and what exists is
// taken over in place.
var Driver = drivers.Driver{
	Name:            "manila",
	CSIName:         csiName,
	ConditionPrefix: "Manila",

	Package: drivers.Package{
		Name:           "manila-csi-driver-operator",
		DisplayName:    "OpenStack Manila CSI Driver Operator",
		Summary:        "Installs the OpenStack Manila CSI driver, which provides shared file systems.",
		Description:    description,
		Icon:           icon,
		Keywords:       []string{"OpenStack", "Manila", "NFS", "CSI", "storage", "ReadWriteMany"},
		Examples:       drivers.Folder(files, "examples"),
		Channel:        "stable",
		MinKubeVersion: "1.27.0", // for a PodDisruptionBudget's unhealthyPodEvictionPolicy
	},

	Operator: drivers.Operator{
		Name: "manila-csi-driver-operator",
		// Not "…-lock": earlier operators have left ConfigMaps of that name, which no pod owns. A lock for
		// life would never be free.
		Lock:  "manila-csi-driver-operator-leader",
		Image: "quay.io/berth-csi/berth-operator:v1.0.0",
	},
	Namespace: "openshift-manila-csi-driver",
	Backend: &drivers.Backend{
		Name:     "OpenStack Manila",
		Kind:     "share type",
		Secret:   cloudSecret,
		Interval: 10 * time.Minute,
		Classes:  classes,
	},

	Assets: drivers.Folder(files, "assets"),
	Images: []drivers.Image{
		{Env: "DRIVER_IMAGE", Default: "quay.io/openshift/origin-csi-driver-manila:4.21"},
		{Env: "NFS_DRIVER_IMAGE", Default: "quay.io/openshift/origin-csi-driver-nfs:4.21"},
		drivers.ProvisionerImage, drivers.ResizerImage, drivers.SnapshotterImage, drivers.NodeDriverRegistrarImage,
		drivers.LivenessProbeImage, drivers.KubeRBACProxyImage,
	},
	Secrets:         []string{cloudSecret},
	TrustedCABundle: "manila-csi-driver-trusted-ca-bundle",
	History: drivers.History{
		// Of the operator of OpenShift 4.5, whose Deployment and DaemonSets had the same names.
		Traces: []drivers.Trace{{Kind: drivers.SecurityContextConstraintsKind, Name: "csi-driver-manila-operator",
			Accounts: []string{"csi-nodeplugin", "openstack-manila-csi-controllerplugin", "openstack-manila-csi-nodeplugin"}}},
	},
}
