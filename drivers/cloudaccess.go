package drivers

import "github.com/berth-csi/berth/drivers/permissions"

// CloudAccess holds what the driver's own controllers need to call the cloud API themselves.
type CloudAccess struct {
	// Secret names the Secret with the controllers' credentials, in the driver's namespace. A CredentialsRequest among the assets
	// requests it.
	Secret string
	// TokenFile is the path, in the operator's pod, of the token with which the operator assumes a role.
	TokenFile string
	// Rules are the permissions that the controllers need in the cluster.
	Rules []permissions.Rule
}
