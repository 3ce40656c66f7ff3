// Package efs defines the AWS EFS CSI driver.
//
// The assets are for version 3.4 of the driver. They use nothing that version 2.1 rejects, because the default image,
// OpenShift's, is still built from version 2.1. Where the versions differ, the operator's variable DRIVER_VERSION
// decides.
//
// tags.go says how the driver tags access points that it creates. Package controller tags existing access points, and
// package internal/aws/provision tags the access points that berth aws create creates.
package efs

import (
	"embed"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
)

//go:embed assets examples
var files embed.FS

//go:embed description.md
var description string

//go:embed alerts.yaml
var alerts string

//go:embed icon.svg
var icon []byte

// sharing is the purpose of the rules for SharedVolumes and their volumes.
const sharing = "To create a volume and a claim for each SharedVolume"

// granting is the purpose of the rules for SharedVolumeGrants.
const granting = "To provide a volume only to SharedVolumes whose namespace has a grant for it"

// tagsSecret is the Secret with the operator's own credentials.
const tagsSecret = "tags-aws-efs-cloud-credentials"

// tagging is the purpose of the rules for the tags of access points.
const tagging = "To keep the tags of existing volumes as the cluster wants them"

// controllerRules are the permissions of the driver's controller (drivers/efs/controller).
var controllerRules = []permissions.Rule{
	{For: tagging, Resources: []string{"persistentvolumes"}, Verbs: []string{"list"}},
	{For: tagging, Resources: []string{"secrets"}, Names: []string{tagsSecret}, Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
	{For: tagging, Resources: []string{"configmaps"}, Names: []string{drivers.CloudConfigName}, Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
	{For: "To warn before a file system has as many access points as AWS allows", Group: "storage.k8s.io", Resources: []string{"storageclasses"}, Verbs: []string{"list"}},
	{For: "To find out whether the nodes can reach the access points of SharedVolumes", Resources: []string{"nodes"}, Verbs: []string{"list"}},
}

// Driver is the AWS EFS CSI driver. Its package updates the community's aws-efs-operator, so it keeps all names from
// that operator that objects and users refer to.
var Driver = drivers.Driver{
	Name:            "efs",
	CSIName:         "efs.csi.aws.com",
	ConditionPrefix: "AWSEFS",

	Package: drivers.Package{
		Name:           "aws-efs-operator",
		DisplayName:    "AWS EFS Operator",
		Summary:        "Installs the AWS EFS CSI driver and shares EFS file systems with application teams.",
		Description:    description,
		Icon:           icon,
		Keywords:       []string{"AWS", "EFS", "NFS", "CSI", "storage", "ReadWriteMany"},
		Examples:       drivers.Folder(files, "examples"),
		Channel:        "stable",
		Replaces:       "aws-efs-operator.v0.0.8", // the community's last version
		UpdatesFrom:    "0.0.1",                   // Versions 0.1.x came after 0.0.8.
		MinKubeVersion: "1.27.0",                  // for a PodDisruptionBudget's unhealthyPodEvictionPolicy
	},

	Operator: drivers.Operator{
		Name:  "aws-efs-operator",
		Lock:  "aws-efs-operator-lock",
		Image: "quay.io/berth-csi/berth-operator:v1.0.0",
		Env:   []string{"ROLEARN", "NODE_ROLEARN", "TAGS_ROLEARN", VersionEnv, drivers.FIPSEndpointEnv, drivers.DNSPolicyEnv},
		Rules: []permissions.Rule{
			{For: sharing, Group: "aws-efs.managed.openshift.io", Resources: []string{"sharedvolumes"},
				Verbs: []string{"list", "watch", "patch"}, Unexercised: permissions.ListFallback},
			{For: sharing, Group: "aws-efs.managed.openshift.io", Resources: []string{"sharedvolumes/status"}, Verbs: []string{"patch"}},
			{For: sharing, Resources: []string{"persistentvolumes"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
			{For: sharing, Resources: []string{"persistentvolumeclaims"},
				Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}, Unexercised: permissions.ListFallback},
			// To find the pods that use the volume of a SharedVolume.
			{For: sharing, Resources: []string{"pods"}, Verbs: []string{"list"}},
			// Events in the namespaces of SharedVolumes, and about grants and the policy.
			{For: sharing, Group: "events.k8s.io", Resources: []string{"events"}, Verbs: []string{"create"}},

			// A grant has the name of its namespace, which can be any name.
			{For: granting, Group: "aws-efs.managed.openshift.io", Resources: []string{"sharedvolumegrants"}, Verbs: permissions.ListWatch, Unexercised: permissions.ListFallback},
			{For: granting, Group: "aws-efs.managed.openshift.io", Resources: []string{"sharedvolumegrants/status"}, Verbs: []string{"patch"}},
			{For: granting, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
			{For: granting, Group: "aws-efs.managed.openshift.io", Resources: []string{"sharedvolumepolicies"}, Names: []string{"cluster"},
				Verbs: append([]string{"get", "create", "patch"}, permissions.ListWatch...), Unexercised: permissions.ListFallback},
			{For: granting, Group: "aws-efs.managed.openshift.io", Resources: []string{"sharedvolumepolicies/status"}, Names: []string{"cluster"}, Verbs: []string{"patch"}},
		},
		Alerts: alerts,
	},

	CloudAccess: &drivers.CloudAccess{Secret: tagsSecret, TokenFile: "/var/run/secrets/openshift/serviceaccount/token", Rules: controllerRules},
	ClassRisk:   sharedDirectory,

	Assets: drivers.Folder(files, "assets"),
	Images: []drivers.Image{
		{Env: "DRIVER_IMAGE", Default: "quay.io/openshift/origin-aws-efs-csi-driver:4.21"},
		drivers.ProvisionerImage, drivers.NodeDriverRegistrarImage, drivers.LivenessProbeImage, drivers.KubeRBACProxyImage,
	},
	Settings: []drivers.Setting{
		{Container: "csi-driver", Apply: region.Apply},
		{Container: "efs-plugin", Apply: region.Apply},
		{Container: "csi-driver", Apply: tagAccessPoints},
		{Container: "efs-plugin", Apply: measureVolumes},
	},
	ConfigFields:    drivers.ConfigFields{Type: operatorv1.AWSDriverType, Fields: []string{"aws.efsVolumeMetrics"}},
	Secrets:         []string{"aws-efs-cloud-credentials", "node-aws-efs-cloud-credentials"},
	CredentialKeys:  drivers.AWSCredentialKeys,
	TrustedCABundle: "efs-csi-trusted-ca-bundle",
	CloudConfig:     drivers.CloudCABundle("efs-csi-cloud-ca"),
	Certification: drivers.Certification{
		Class:      "efs-sc",
		Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": "fs-0123456789abcdef0", "directoryPerms": "700"},
		MinSize:    "1Gi",
		Create:     "berth aws create -o storageclass",
		Destroy:    drivers.AWSDestroy,
	},
	History: drivers.History{
		Labels: map[string]string{"openshift.io/aws-efs-operator-owned": "true"},
		Finalizers: []string{
			// The operator in the package aws-efs-csi-driver-operator adds them.
			"aws-efs-csi-driver-operator.operator.openshift.io/AWSEFSDriverControllerServiceController",
			"aws-efs-csi-driver-operator.operator.openshift.io/AWSEFSDriverNodeServiceController",
			"aws-efs-csi-driver-operator.operator.openshift.io/CSIStaticResourceController",
		},
		// The driver of that operator has a DaemonSet and a Deployment with other names.
		Traces: []drivers.Trace{
			{Kind: drivers.ClusterRoleBindingKind, Name: "efs-controller-privileged-binding", Accounts: []string{"aws-efs-csi-driver-controller-sa"}, Foreign: true},
			{Kind: drivers.ClusterRoleBindingKind, Name: "efs-node-privileged-binding", Accounts: []string{"aws-efs-csi-driver-node-sa"}, Foreign: true},
		},
		Foreign: "To keep that driver, delete the Subscription and the ClusterServiceVersion of this operator. " +
			"To replace it: https://github.com/berth-csi/berth/blob/main/docs/move/redhat-efs.md",
	},
}
