package drivers

import (
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
)

// ClusterStorage says on which clusters the cluster storage operator runs the driver's operator. Such a driver is a part
// of the platform: it cannot be removed.
type ClusterStorage struct {
	// Platform is the type in status.platformStatus of Infrastructure/cluster.
	Platform configv1.PlatformType
	// FeatureGate must be enabled; "" for none.
	FeatureGate configv1.FeatureGateName
	// Without returns why a cluster of that platform does not get the driver, as a clause for a condition, or "" if it
	// does. It may be nil.
	Without func(Platform) string
	// Optional drivers may find out that the cloud has nothing for them. The platform's storage is available without
	// them.
	Optional bool
	// DefaultClass names the StorageClass among the assets that is the default of a fresh cluster; "" for none. A platform
	// has one driver with a default class at most.
	DefaultClass string
	// DefaultSnapshotClass names the VolumeSnapshotClass among the assets that is the driver's default in a fresh cluster; "" for
	// none. Each driver has its own default.
	DefaultSnapshotClass string
}

// Platform is what decides which drivers a cluster gets.
type Platform struct {
	Infrastructure *configv1.Infrastructure
	Storage        operatorv1.StorageSpec
	// Installed says that the cluster has the driver, or a ClusterCSIDriver of it. A driver that may be in use never goes.
	Installed bool
}
