package drivers

import (
	"context"
	"time"

	storagev1 "k8s.io/api/storage/v1"
)

// Backend is the storage service that provisions the driver's volumes, for a service that is missing in some clouds
// and offers different kinds of storage in each. The driver is installed once the backend offers something. A backend
// that cannot be reached has not withdrawn anything: the driver stays installed.
type Backend struct {
	// Name is how users know the backend, such as "OpenStack Manila", and Kind is one kind of storage that it offers,
	// such as "share type".
	Name, Kind string
	// Secret names the Secret, in the driver's namespace, with the credentials for the backend.
	Secret string
	// Interval is the time between two requests to the backend.
	Interval time.Duration
	// Classes queries the backend of a cloud, whose credentials are the content of the Secret. It returns a StorageClass for each kind of storage
	// that the backend offers, and a sentence about each kind that cannot have one. An error says that the backend could
	// not be queried.
	Classes func(ctx context.Context, cloud Cloud) (classes []storagev1.StorageClass, leftOut []string, err error)
}
