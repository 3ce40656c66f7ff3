package drivers

import "time"

// Backend describes the storage service that provisions the driver's volumes. It is for services that some clouds lack, and that offer
// other kinds of storage in each cloud. The driver is installed once the backend offers storage. If the backend cannot be reached, the
// driver stays installed, because the offer still stands. The code that queries the backend is in drivers/NAME/controller.
type Backend struct {
	// Name is how users know the backend, such as "OpenStack Manila", and Kind is one kind of storage that it offers,
	// such as "share type".
	Name, Kind string
	// Secret names the Secret, in the driver's namespace, with the credentials for the backend.
	Secret string
	// Interval is the time between two requests to the backend.
	Interval time.Duration
}

// MaxClasses is the maximum number of StorageClasses for a backend. Whoever may write the Secret with the credentials chooses the
// backend, and could otherwise fill etcd with classes.
const MaxClasses = 200
