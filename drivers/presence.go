package drivers

import (
	"context"
	"time"
)

// Presence says how the operator looks in the cloud for what objects of its API refer to, such as access points. It calls the cloud
// with the credentials of Tagging.
type Presence struct {
	// Interval is the time after which the operator looks again, for what may have been created or deleted.
	Interval time.Duration
	// Find looks for resources of one parent, such as access points of a file system, which pods on nodes in zones of the cluster's
	// region are to reach. It returns a finding for each resource.
	Find func(ctx context.Context, access CloudAccess, parent string, resources, zones []string) (map[string]Finding, error)
}

// A Finding says whether a resource is there and can be reached.
type Finding struct {
	Present bool
	// Reason is a word for it in a condition, and Message a sentence for people.
	Reason, Message string
}
