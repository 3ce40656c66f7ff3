package drivers

import (
	"context"
	"time"

	storagev1 "k8s.io/api/storage/v1"
)

// Quota says how the operator measures what is used of something that the cloud limits, so that an alert can tell before claims
// cannot get volumes any more, or get those of others. It calls the cloud with the credentials of Tagging.
type Quota struct {
	// Resources is what the cloud limits, such as "access points".
	Resources string
	// Limit returns how many of them one parent may have, by the operator's environment, which may say the driver's version.
	Limit func(environment map[string]string) int
	// Interval is the time between two measurements.
	Interval time.Duration
	// Parent returns the ID of that in which the driver creates resources for claims of a StorageClass, such as a file system, or
	// "" if it creates none.
	Parent func(*storagev1.StorageClass) string
	// Measure returns the usage of a parent. The classes name that parent.
	Measure func(ctx context.Context, access CloudAccess, parent string, classes []storagev1.StorageClass) (Usage, error)
}

// Usage is what is used of a parent.
type Usage struct {
	// Resources is how many there are.
	Resources int
	// Shared names what several of them have that each should have for itself, such as group IDs, in order.
	Shared []string
}
