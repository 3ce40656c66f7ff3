// Package ebs defines the AWS EBS CSI driver.
package ebs

import (
	"embed"
	"io/fs"

	"github.com/berth-csi/berth/drivers"
)

//go:embed assets examples
var files embed.FS

//go:embed description.md
var description string

//go:embed icon.svg
var icon []byte

// Driver is the AWS EBS CSI driver. Its objects have the names under which OpenShift's own operators have
// always made them, so that volumes, scripts and migrations find them.
var Driver = drivers.Driver{
	Name:            "ebs",
	CSIName:         "ebs.csi.aws.com",
	ConditionPrefix: "AWSEBS",

	Package: drivers.Package{
		Name:           "aws-ebs-csi-driver-operator",
		DisplayName:    "AWS EBS CSI Driver Operator",
		Summary:        "Installs the AWS EBS CSI driver, which provides block volumes.",
		Description:    description,
		Icon:           icon,
		Keywords:       []string{"AWS", "EBS", "CSI", "storage", "block"},
		Examples:       folder("examples"),
		Channel:        "stable",
		MinKubeVersion: "1.27.0", // for a PodDisruptionBudget's unhealthyPodEvictionPolicy
	},

	Operator: drivers.Operator{
		Name: "aws-ebs-csi-driver-operator",
		// Not "…-lock": earlier operators have left ConfigMaps of that name, which no pod owns. A lock for
		// life would never be free.
		Lock:  "aws-ebs-csi-driver-operator-leader",
		Image: "quay.io/berth-csi/berth-operator:v1.0.0",
		Env:   []string{"ROLEARN"},
	},

	Assets: folder("assets"),
	Images: []drivers.Image{
		{Env: "DRIVER_IMAGE", Default: "quay.io/openshift/origin-aws-ebs-csi-driver:4.21"},
		{Env: "PROVISIONER_IMAGE", Default: "quay.io/openshift/origin-csi-external-provisioner:4.21"},
		{Env: "ATTACHER_IMAGE", Default: "quay.io/openshift/origin-csi-external-attacher:4.21"},
		{Env: "RESIZER_IMAGE", Default: "quay.io/openshift/origin-csi-external-resizer:4.21"},
		{Env: "SNAPSHOTTER_IMAGE", Default: "quay.io/openshift/origin-csi-external-snapshotter:4.21"},
		{Env: "NODE_DRIVER_REGISTRAR_IMAGE", Default: "quay.io/openshift/origin-csi-node-driver-registrar:4.21"},
		{Env: "LIVENESS_PROBE_IMAGE", Default: "quay.io/openshift/origin-csi-livenessprobe:4.21"},
		{Env: "KUBE_RBAC_PROXY_IMAGE", Default: "quay.io/openshift/origin-kube-rbac-proxy:4.21"},
	},
	Settings:        []drivers.Setting{{Container: "csi-driver", Apply: tagVolumes}},
	ClassParameters: encryptionKey,
	Secrets:         []string{"ebs-cloud-credentials"},
	TrustedCABundle: "aws-ebs-csi-driver-trusted-ca-bundle",
}

// encryptionKey has new volumes encrypted with the key that the administrator has chosen, rather than with
// the one that AWS has for each account.
func encryptionKey(cluster drivers.Cluster) map[string]string {
	aws := cluster.ClusterCSIDriver.Spec.DriverConfig.AWS
	if aws == nil || aws.KMSKeyARN == "" {
		return nil
	}
	return map[string]string{"kmsKeyId": aws.KMSKeyARN}
}

// folder returns one of the embedded folders. Its name is part of the program, so a wrong one is a
// fault of the program, too.
func folder(name string) fs.FS {
	sub, err := fs.Sub(files, name)
	if err != nil {
		panic(err)
	}
	return sub
}
