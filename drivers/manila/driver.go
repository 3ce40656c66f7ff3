// Package manila defines the OpenStack Manila CSI driver, for NFS shares.
package manila

import (
	"embed"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	// cloudSecret is the Secret in which the cloud credential operator provides credentials.
	cloudSecret = "manila-cloud-credentials"
	// lastApplied is the annotation of all objects that OpenShift 4.5's operator made.
	lastApplied = "manila.csi.openshift.io/last-applied"
)

// DriverSecret is the Secret with the driver's credentials for the cloud. Volumes refer to it.
const DriverSecret = "csi-manila-secrets"

// ClassName returns the name of a share type's StorageClass.
func ClassName(shareType string) string {
	return "csi-manila-" + strings.ReplaceAll(strings.ToLower(shareType), "_", "-")
}

// Driver is the Manila CSI driver. It keeps the namespace and the names that OpenShift's own operators used: volumes
// refer to the Secret there, and existing objects are adopted in place.
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
		Replaces:       "manila-csi-driver-operator.v4.5.0", // of OpenShift 4.5
		UpdatesFrom:    "4.3.0",                             // including prereleases of that version
		MinKubeVersion: "1.27.0",                            // for a PodDisruptionBudget's unhealthyPodEvictionPolicy
	},

	Operator: drivers.Operator{
		Name: "manila-csi-driver-operator",
		// Not "…-lock": earlier operators left ConfigMaps with that name and without an owner. Such a lock would
		// never become free.
		Lock:  "manila-csi-driver-operator-leader",
		Image: "quay.io/berth-csi/berth-operator:v1.0.0",
	},
	Namespace: "openshift-manila-csi-driver",
	Backend: &drivers.Backend{
		Name:     "OpenStack Manila",
		Kind:     "share type",
		Secret:   cloudSecret,
		Interval: 10 * time.Minute,
	},

	Assets: drivers.Folder(files, "assets"),
	Images: []drivers.Image{
		{Env: "DRIVER_IMAGE", Default: "quay.io/openshift/origin-csi-driver-manila:4.21"},
		{Env: "NFS_DRIVER_IMAGE", Default: "quay.io/openshift/origin-csi-driver-nfs:4.21"},
		drivers.ProvisionerImage, drivers.ResizerImage, drivers.SnapshotterImage, drivers.NodeDriverRegistrarImage,
		drivers.LivenessProbeImage, drivers.KubeRBACProxyImage,
	},
	Secrets:         []string{cloudSecret},
	Settings:        []drivers.Setting{{Container: "csi-driver", Apply: mountCA}}, // in the pods of controller and node
	TrustedCABundle: "manila-csi-driver-trusted-ca-bundle",
	CloudConfig:     drivers.CloudCABundle(cloudCAName),
	ClusterStorage:  &drivers.ClusterStorage{Platform: configv1.OpenStackPlatformType, Optional: true},
	Certification: drivers.Certification{
		Class: ClassName("default"), SnapshotClass: "csi-manila-standard",
		MinSize: "1Gi", MaxSize: "16Ti",
	},
	History: drivers.History{
		// The trace of OpenShift 4.5's operator, whose Deployment and DaemonSets had the same names as ours.
		Traces:              []drivers.Trace{{Kind: drivers.SecurityContextConstraintsKind, Name: oldConstraints, Accounts: oldAccounts}},
		CSIDriverAnnotation: lastApplied,
		Predecessors: []drivers.Predecessor{
			{
				Versions: ">=4.3.0-0 <4.6.0-0",
				Operator: "csi-driver-manila-operator",
				CustomResource: &drivers.CustomResource{
					Kind: schema.GroupVersionKind{Group: "csi.openshift.io", Version: "v1alpha1", Kind: "ManilaDriver"},
					Name: "cluster", Definition: "maniladrivers.csi.openshift.io", Finalizer: "finalizer.manila.csi.openshift.io",
				},
				Namespace: "openshift-manila-csi-driver-operator",
				Leaves:    leftovers(),
			},
			{Versions: ">=5.0.0-0 <6.0.0-0", Operator: "manila-csi-driver-operator"}, // of this definition
		},
		// OpenShift 4.5's operator described the login with these keys. New pods have the CA at the path of
		// os-certAuthorityPath.
		Keys: []drivers.RetiredKeys{{
			Secret: DriverSecret, Mark: lastApplied, Accounts: oldAccounts, Keys: oldKeys,
		}},
	},
}

// cloudCAName is the driver's ConfigMap with the CA bundle of the cloud's configuration.
const cloudCAName = "manila-csi-driver-cloud-ca"

// Volumes of the pods, each with the CA bundle of a cloud with a private CA, under the file names that clouds.yaml and
// OpenShift 4.5 use.
const (
	credentialsCA = "cloud-ca"        // from the credentials
	configCA      = "cloud-config-ca" // from the cloud's configuration
)

// mountCA mounts the CA bundle of the cloud's configuration, if there is one, in place of the bundle in the
// credentials. The cloud credential operator copies it to the credentials only since OpenShift 4.19, but clouds.yaml
// refers to it in all versions.
func mountCA(cluster drivers.Cluster, container *corev1.Container) (leftOut []string) {
	if cluster.CloudConfig[drivers.CABundleKey] == "" {
		return nil
	}
	for i := range container.VolumeMounts {
		if mount := &container.VolumeMounts[i]; mount.Name == credentialsCA {
			mount.Name = configCA
		}
	}
	return nil
}

// oldAccounts are the service accounts of OpenShift 4.5's driver. Its ClusterRoles and ClusterRoleBindings have the same names.
var oldAccounts = []string{"csi-nodeplugin", "openstack-manila-csi-controllerplugin", "openstack-manila-csi-nodeplugin"}

// oldConstraints are the SecurityContextConstraints of the pods with these accounts.
const oldConstraints = "csi-driver-manila-operator"

// leftovers returns the objects that OpenShift 4.5's operator created and this definition does not have.
func leftovers() []drivers.Leftover {
	rbac := rbacv1.SchemeGroupVersion
	found := []drivers.Leftover{
		{Kind: rbac.WithKind("RoleBinding"), Namespace: drivers.NamespacePlaceholder, Name: "openstack-manila-csi-controllerplugin"},
		{Kind: rbac.WithKind("Role"), Namespace: drivers.NamespacePlaceholder, Name: "openstack-manila-csi-controllerplugin"},
		{Kind: drivers.SecurityContextConstraintsKind, Name: oldConstraints},
		{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: drivers.NamespacePlaceholder, Name: "openstack-certificates"},
		{Kind: drivers.CredentialsRequestKind, Namespace: drivers.CredentialsRequestNamespace, Name: "manila-csi-credentials-request",
			Credentials: &drivers.OldCredentials{Secret: "installer-cloud-credentials", Copy: DriverSecret, Keys: oldKeys}},
	}
	for _, account := range oldAccounts {
		found = append(found,
			drivers.Leftover{Kind: drivers.ClusterRoleBindingKind, Name: account},
			drivers.Leftover{Kind: rbac.WithKind("ClusterRole"), Name: account},
			drivers.Leftover{Kind: corev1.SchemeGroupVersion.WithKind("ServiceAccount"), Namespace: drivers.NamespacePlaceholder, Name: account},
		)
	}
	return found
}

// oldKeys are the keys that OpenShift 4.5's operator could write to the Secret that volumes refer to.
var oldKeys = []string{
	"os-authURL", "os-certAuthorityPath", "os-domainID", "os-domainName", "os-password", "os-projectDomainID", "os-projectDomainName",
	"os-projectID", "os-projectName", "os-region", "os-userDomainID", "os-userDomainName", "os-userID", "os-userName",
}
