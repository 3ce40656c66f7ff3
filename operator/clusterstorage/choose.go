package clusterstorage

import (
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/berth-csi/berth/drivers"
)

// A choice says whether the cluster gets a driver.
type choice struct {
	driver drivers.Driver
	// without says why the cluster does not get the driver although its platform has it; "" if the cluster gets it.
	without string
}

// OfPlatforms returns the drivers that some platform needs.
func OfPlatforms(all []drivers.Driver) []drivers.Driver {
	return slices.DeleteFunc(slices.Clone(all), func(d drivers.Driver) bool { return d.ClusterStorage == nil })
}

// choose returns a choice for each driver of the cluster's platform, in the order of the drivers.
func choose(all []drivers.Driver, o observed) []choice {
	platform := o.platform()
	var choices []choice
	for _, d := range all {
		if platform == "" || d.ClusterStorage.Platform != platform {
			continue
		}
		choices = append(choices, choice{driver: d, without: without(d, o)})
	}
	return choices
}

// without returns why the cluster does not get a driver of its platform, or "" if it gets the driver.
func without(d drivers.Driver, o observed) string {
	if required := d.ClusterStorage.FeatureGate; required != "" && !o.gates[required] {
		return fmt.Sprintf("the feature gate %s is not enabled", required)
	}
	if d.ClusterStorage.Without == nil {
		return ""
	}
	return d.ClusterStorage.Without(drivers.Platform{
		Infrastructure: o.infrastructure, Storage: o.storage.Spec, Installed: installed(d, o),
	})
}

// installed reports whether the cluster has a driver, or a ClusterCSIDriver that asks for it. If the ClusterCSIDriver
// was deleted, the CSIDriver still shows the driver.
func installed(d drivers.Driver, o observed) bool {
	return o.customResources[d.CSIName] != nil || o.csiDrivers[d.CSIName] != nil && !foreign(d, o)
}

// chosen returns the drivers that the cluster gets.
func chosen(choices []choice) []drivers.Driver {
	var found []drivers.Driver
	for _, c := range choices {
		if c.without == "" {
			found = append(found, c.driver)
		}
	}
	return found
}

// platform returns the type of the cluster's platform; "" if it is unknown.
func (o observed) platform() configv1.PlatformType {
	if o.infrastructure == nil || o.infrastructure.Status.PlatformStatus == nil {
		return ""
	}
	return o.infrastructure.Status.PlatformStatus.Type
}
