// Package ebs defines the AWS EBS CSI driver.
package ebs

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/drivers"
)

//go:embed assets examples
var files embed.FS

//go:embed description.md
var description string

//go:embed icon.svg
var icon []byte

// Driver is the AWS EBS CSI driver. Its objects keep the names that OpenShift's own operators gave them, so that
// volumes, scripts and migrations find them.
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
		Examples:       drivers.Folder(files, "examples"),
		Channel:        "stable",
		Replaces:       "aws-ebs-csi-driver-operator.v4.5.0", // of OpenShift 4.5
		UpdatesFrom:    "4.3.0",                              // the oldest version that 4.5.0 updated
		MinKubeVersion: "1.34.0",                             // for VolumeAttributesClasses, and for the CSIDriver's nodeAllocatableUpdatePeriodSeconds
	},

	Operator: drivers.Operator{
		Name: "aws-ebs-csi-driver-operator",
		// Not "…-lock": earlier operators left ConfigMaps with that name and without an owner. Such a lock would
		// never become free.
		Lock:  "aws-ebs-csi-driver-operator-leader",
		Image: "quay.io/berth-csi/berth-operator:v1.0.0",
		Env:   []string{"ROLEARN", drivers.FIPSEndpointEnv},
	},

	// OpenShift 4.5's operator used it, with the same names of the Deployment and the DaemonSet.
	Namespace: "openshift-aws-ebs-csi-driver",
	InTree:    drivers.InTree{Source: "awsElasticBlockStore", Plugin: "kubernetes.io/aws-ebs", Gate: "CSIMigrationAWS", Preview: "4.8.0", Migrated: "4.12.0"},

	Assets: drivers.Folder(files, "assets"),
	Images: []drivers.Image{
		{Env: "DRIVER_IMAGE", Default: "quay.io/openshift/origin-aws-ebs-csi-driver:4.21"},
		drivers.ProvisionerImage, drivers.AttacherImage, drivers.ResizerImage, drivers.SnapshotterImage,
		drivers.NodeDriverRegistrarImage, drivers.LivenessProbeImage, drivers.KubeRBACProxyImage,
	},
	Settings: []drivers.Setting{
		{Container: "csi-driver", Apply: region.Apply},
		{Container: "csi-driver", Apply: ignoreEndpoints},
		{Container: "csi-driver", Apply: tagVolumes},
	},
	ConfigFields:    drivers.ConfigFields{Type: operatorv1.AWSDriverType, Fields: []string{"aws.kmsKeyARN"}},
	ClassParameters: encryptionKey,
	Secrets:         []string{"ebs-cloud-credentials"},
	CredentialKeys:  drivers.AWSCredentialKeys,
	TrustedCABundle: "aws-ebs-csi-driver-trusted-ca-bundle",
	CloudConfig:     drivers.CloudCABundle("aws-ebs-csi-driver-cloud-ca"),
	ClusterStorage:  &drivers.ClusterStorage{Platform: configv1.AWSPlatformType, DefaultClass: "gp3-csi", DefaultSnapshotClass: "csi-aws-vsc"},
	Certification: drivers.Certification{
		Class: "gp3-csi", SnapshotClass: "csi-aws-vsc",
		MinSize: "1Gi", MaxSize: "16Ti", FileSystems: []string{"ext4", "xfs"}, MountOptions: []string{"dirsync"},
		TopologyKeys: []string{corev1.LabelTopologyZone},
		Clones:       true,
		Attributes:   map[string]string{"type": "gp3", "throughput": "250"}, // even the smallest volume can have this throughput
		Destroy:      drivers.AWSDestroy,
	},
	History: drivers.History{
		Predecessors: []drivers.Predecessor{
			{
				// Of OpenShift 4.5.
				Versions: ">=4.3.0-0 <4.6.0-0",
				Operator: "aws-ebs-csi-driver-operator",
				CustomResource: &drivers.CustomResource{
					Kind: schema.GroupVersionKind{Group: "csi.openshift.io", Version: "v1alpha1", Kind: "AWSEBSDriver"},
					Name: "cluster", Definition: "awsebsdrivers.csi.openshift.io", Finalizer: "operator.csi.openshift.io",
				},
				Namespace: "openshift-aws-ebs-csi-driver-operator",
				Leaves: []drivers.Leftover{
					{Kind: drivers.ClusterRoleBindingKind, Name: "ebs-controller-privileged-binding"},
					{Kind: drivers.CredentialsRequestKind, Namespace: drivers.CredentialsRequestNamespace, Name: "openshift-aws-ebs-csi-driver",
						Credentials: &drivers.OldCredentials{Secret: "aws-cloud-credentials"}},
				},
			},
			{Versions: ">=5.0.0-0 <6.0.0-0", Operator: "aws-ebs-csi-driver-operator"}, // of this definition
		},
	},
}

// encryptionKey encrypts new volumes with the administrator's key instead of the account's default key.
func encryptionKey(cluster drivers.Cluster) map[string]string {
	aws := cluster.ClusterCSIDriver.Spec.DriverConfig.AWS
	if aws == nil || aws.KMSKeyARN == "" {
		return nil
	}
	return map[string]string{"kmsKeyId": aws.KMSKeyARN}
}

// cloudCAFile is where the controller's asset mounts the CA bundle of the cloud.
const cloudCAFile = "/var/run/cloud-ca/" + drivers.CABundleKey

// region tells the driver its region. Otherwise, the driver would ask the instance metadata service, which by default answers no pod on
// the pod network, and the driver would exit. The AWS SDK calls STS when the driver assumes a role. All other calls of the driver are to
// EC2.
var region = drivers.AWSRegion{
	Endpoints: map[string]string{"ec2": "AWS_EC2_ENDPOINT", "sts": "AWS_ENDPOINT_URL_STS"},
	CAFile:    cloudCAFile,
}

// ignoreEndpoints makes the AWS SDK ignore the endpoint of STS in a credentials file: otherwise, whoever may write the Secret could make
// the driver send the pod's tokens to any server. An endpoint of STS that region has set takes precedence over the file, but the variable
// would make the SDK ignore that endpoint, too.
func ignoreEndpoints(_ drivers.Cluster, container *corev1.Container) (leftOut []string) {
	isSTS := func(e corev1.EnvVar) bool { return e.Name == region.Endpoints["sts"] }
	if !slices.ContainsFunc(container.Env, isSTS) {
		container.Env = append(container.Env, corev1.EnvVar{Name: "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", Value: "true"})
	}
	return nil
}

// tagVolumes makes the driver tag each volume and snapshot that it creates with the tags that the cluster wants on
// all its resources. The driver itself adds the tag by which the installer finds the cluster's resources: it knows
// the cluster's name from another argument.
func tagVolumes(cluster drivers.Cluster, container *corev1.Container) (leftOut []string) {
	tags, leftOut := drivers.AWSTags(cluster.Infrastructure, "volumes", untaggable)
	var words []string
	for _, tag := range tags {
		words = append(words, tag.Key+"="+tag.Value)
	}
	if len(words) > 0 {
		container.Args = append(container.Args, "--extra-tags="+strings.Join(words, ","))
	}
	return leftOut
}

// reservedKeys are prefixes of the keys that AWS and the driver reserve. The driver exits if it is given a tag whose key has such a
// prefix.
var reservedKeys = []string{"aws:", "kubernetes.io", "ebs.csi.aws.com", "CSIVolumeName", "CSIVolumeSnapshotName"}

// untaggable returns why a volume cannot have a tag, or "" if it can. The driver does not start if it cannot parse its list of tags.
func untaggable(tag configv1.AWSResourceTag) string {
	for _, reserved := range reservedKeys {
		if strings.HasPrefix(tag.Key, reserved) {
			return "AWS and the driver reserve keys that begin with " + reserved
		}
	}
	// The driver splits its list at commas outside of quotes, and each word at the first equals sign. Kubernetes
	// would expand a dollar sign as the beginning of a variable.
	for _, part := range []struct{ text, forbidden string }{{tag.Key, `,"$=`}, {tag.Value, `,"$`}} {
		if i := strings.IndexAny(part.text, part.forbidden); i >= 0 {
			return fmt.Sprintf("the driver does not accept the character %q", part.text[i])
		}
	}
	return ""
}
