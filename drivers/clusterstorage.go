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
	// FeatureGate is the feature gate that must be enabled; "" for none.
	FeatureGate configv1.FeatureGateName
	// Without returns why a cluster of that platform does not get the driver, as a clause for a condition, or "" if the cluster gets it.
	// Without may be nil.
	Without func(Platform) string
	// Optional says that the cloud may have no storage for the driver. The platform's storage counts as available without the driver.
	Optional bool
	// DefaultClass names the StorageClass among the assets that is the default of a fresh cluster; "" for none. A
	// platform has at most one driver with a default class.
	DefaultClass string
	// DefaultSnapshotClass names the VolumeSnapshotClass among the assets that is the driver's default in a fresh cluster; "" for
	// none. Each driver has its own default.
	DefaultSnapshotClass string
}

// Platform is the state of a cluster that decides which drivers it gets.
type Platform struct {
	Infrastructure *configv1.Infrastructure
	Storage        operatorv1.StorageSpec
	// Installed says that the cluster has the driver, or its ClusterCSIDriver. A driver that may be in use is never removed.
	Installed bool
}
