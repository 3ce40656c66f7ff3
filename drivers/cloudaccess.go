package drivers

import (
	"context"

	configv1 "github.com/openshift/api/config/v1"
)

// CloudAccess is with what the operator itself calls the cloud, besides the driver.
type CloudAccess struct {
	// Infrastructure says where the cloud is.
	Infrastructure *configv1.Infrastructure
	// Credentials is the content of the Secret Tagging.Secret, and TokenFile is Tagging.TokenFile. There are no credentials while
	// there is no Secret.
	Credentials map[string][]byte
	TokenFile   string
	// CABundle has the certificate authorities to trust besides those of the system, in PEM: the cloud's own, and those of a
	// proxy.
	CABundle string
	// Wait returns when the next call to the cloud may be made, and has to be called before each call. throttled says that the
	// last call was refused because there are too many. After an error, no further call may be made, and that error is returned.
	Wait func(ctx context.Context, throttled bool) error
}
