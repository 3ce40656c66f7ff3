package manila

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/berth-csi/berth/drivers"
)

// oldAccounts are the service accounts of OpenShift 4.5's driver. Its ClusterRoles and ClusterRoleBindings have the same names.
var oldAccounts = []string{"csi-nodeplugin", "openstack-manila-csi-controllerplugin", "openstack-manila-csi-nodeplugin"}

// oldConstraints are the SecurityContextConstraints of their pods.
const oldConstraints = "csi-driver-manila-operator"

// leftovers are the objects that OpenShift 4.5's operator created and this definition does not have.
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
