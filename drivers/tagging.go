package drivers

import (
	"context"
	"time"

	configv1 "github.com/openshift/api/config/v1"
)

// Tagging says how the operator keeps the tags of what the driver has created in the cloud as the cluster wants them. The
// driver sets tags only once, when it creates a resource.
//
// A pass compares the tags of all resources of the cluster's volumes, and sets those that are missing or have another
// value. Tags that somebody else has set stay, and so do those that the cluster no longer wants: OpenShift leaves these to
// the administrator.
type Tagging struct {
	// Resources is what the driver creates, such as "access points".
	Resources string
	// Secret names the Secret with the operator's own credentials, in the driver's namespace. A CredentialsRequest
	// among the assets requests it.
	Secret string
	// TokenFile is where the operator's pod has the token with which it assumes a role.
	TokenFile string
	// Interval is the time between two passes if nothing changes.
	Interval time.Duration
	// Pause is the shortest time between two calls to the cloud.
	Pause time.Duration
	// Wanted returns the tags that the cluster wants on the resources, as far as the cloud allows them. Without any,
	// there are no passes.
	Wanted func(*configv1.Infrastructure) map[string]string
	// SetTags makes a pass. An error says that the pass is not complete.
	SetTags func(context.Context, TaggingPass) (TaggingResult, error)
}

// TaggingPass is what a pass needs.
type TaggingPass struct {
	CloudAccess
	// Tags are the tags that the cluster wants.
	Tags map[string]string
	// Volumes are the handles of the driver's PersistentVolumes. Some may be wrong: these objects are made at the request
	// of tenants, and administrators write them by hand.
	Volumes []string
	// Refused has the keys of the tags that the cloud refuses, and why. A pass adds to it and does not try them again. It
	// is empty again when the cluster wants other tags.
	Refused map[string]string
}

// TaggingResult is the result of a pass.
type TaggingResult struct {
	// Changed is the number of resources that got tags.
	Changed int
	// LeftOut has a sentence about each thing that keeps resources from getting a tag, and that another pass would not
	// change.
	LeftOut []string
}
