package drivers

import (
	"context"
	"time"

	storagev1 "k8s.io/api/storage/v1"
)

// Backend is what a driver's volumes come from, where not every cloud has it, and each offers kinds of
// storage of its own. The driver is installed once there is something for it to serve. A backend that
// cannot be asked has withdrawn nothing: what is installed stays.
type Backend struct {
	// Name is what people call it, such as "OpenStack Manila", and Kind one kind of storage that it
	// offers, such as "share type".
	Name, Kind string
	// Secret is the Secret, in the driver's namespace, with the credentials to ask with.
	Secret string
	// Interval is how often the backend is asked.
	Interval time.Duration
	// Classes asks the backend, with the content of the Secret, and returns a StorageClass for each kind of
	// storage that it offers, and a sentence about each kind that can have none. The driver is, or will be, in
	// the namespace. An error says that the backend could not be asked.
	Classes func(ctx context.Context, credentials map[string][]byte, namespace string) (classes []storagev1.StorageClass, leftOut []string, err error)
}
