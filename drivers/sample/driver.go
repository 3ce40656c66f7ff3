// Package sample defines a driver that is in no release. It shows authors of drivers what a definition is, and tests
// run it like the others. Package registry includes it only with the build tag "sample".
package sample

import (
	"embed"

	"github.com/berth-csi/berth/drivers"
)

//go:embed assets examples
var files embed.FS

//go:embed description.md
var description string

//go:embed icon.svg
var icon []byte

// Driver is the CSI driver of lab/sample: each volume is a folder below a folder that all nodes share.
var Driver = drivers.Driver{
	Name: "sample",
	// Borrowed: OpenShift accepts a ClusterCSIDriver only if its name is on a list (CSIDriverName in
	// github.com/openshift/api/operator/v1). No release of this project defines a driver of this name.
	CSIName:         "csi.sharedresource.openshift.io",
	ConditionPrefix: "Sample",

	Package: drivers.Package{
		Name:           "sample-csi-driver-operator",
		DisplayName:    "Sample CSI Driver Operator",
		Summary:        "Installs the sample CSI driver, which keeps volumes in a folder that all nodes share.",
		Description:    description,
		Icon:           icon,
		Keywords:       []string{"sample", "CSI", "storage", "ReadWriteMany"},
		Examples:       drivers.Folder(files, "examples"),
		Channel:        "stable",
		MinKubeVersion: "1.27.0", // for a PodDisruptionBudget's unhealthyPodEvictionPolicy
	},

	Operator: drivers.Operator{
		Name:  "sample-csi-driver-operator",
		Lock:  "sample-csi-driver-operator-lock",
		Image: "quay.io/berth-csi/berth-operator:v1.0.0",
	},

	Assets: drivers.Folder(files, "assets"),
	Images: []drivers.Image{
		{Env: "DRIVER_IMAGE", Default: "quay.io/berth-csi/sample-csi-driver:v1.0.0"},
		drivers.ProvisionerImage, drivers.ResizerImage, drivers.SnapshotterImage,
	},
	TrustedCABundle: "sample-csi-driver-trusted-ca-bundle",
}
