package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
)

// A finding says whether an access point is there and can be reached.
type finding struct {
	present bool
	// reason and message are for a condition.
	reason, message string
}

// noFileSystem is the finding about access points of a file system that does not exist.
var noFileSystem = finding{reason: "FileSystemNotFound", message: "The cluster's AWS account has no such file system in its region. Correct the ID, unless it is of another account"}

// judge returns the finding about an access point, from its state ("" if it is missing) and from zones with nodes but no mount target.
func judge(state types.LifeCycleState, unreached []string) finding {
	switch {
	case state == "":
		return finding{reason: "AccessPointNotFound", message: "The file system has no such access point. Correct the ID, or create it"}
	case state != types.LifeCycleStateAvailable:
		return finding{reason: "AccessPointNotAvailable", message: fmt.Sprintf("The access point is %s", state)}
	case len(unreached) > 0:
		return finding{reason: "MountTargetMissing", message: fmt.Sprintf(
			"No mount target is available in %s, so pods on nodes there cannot mount it. Create a mount target there", some("zone", unreached))}
	default:
		return finding{present: true, reason: "Found", message: "File system and access point exist, and each zone with nodes has a mount target"}
	}
}

// forAll returns the same finding for all IDs.
func forAll(ids []string, one finding) map[string]finding {
	found := map[string]finding{}
	for _, id := range ids {
		found[id] = one
	}
	return found
}

// unreachedZones returns, sorted, those Availability Zones among zones that have no available mount target.
func unreachedZones(zones []string, region string, reached map[string]bool) []string {
	return slices.DeleteFunc(regional(zones, region), func(zone string) bool { return reached[zone] })
}

// regional returns the Availability Zones among zones, sorted. Local Zones, whose names are longer, cannot have mount targets.
func regional(zones []string, region string) []string {
	found := map[string]bool{}
	for _, zone := range zones {
		if letter, ok := strings.CutPrefix(zone, region); ok && len(letter) == 1 {
			found[zone] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// zonesWithMountTarget returns the zones in which a file system has an available mount target. Each zone has at most one.
func (c *caller) zonesWithMountTarget(ctx context.Context, fileSystem string) (map[string]bool, error) {
	zones := map[string]bool{}
	input := &efs.DescribeMountTargetsInput{FileSystemId: &fileSystem}
	for range maxPages {
		var page *efs.DescribeMountTargetsOutput
		err := c.call(ctx, func(ctx context.Context) (err error) {
			page, err = c.efs.DescribeMountTargets(ctx, input)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, target := range page.MountTargets {
			if target.LifeCycleState == types.LifeCycleStateAvailable {
				zones[aws.ToString(target.AvailabilityZoneName)] = true
			}
		}
		if aws.ToString(page.NextMarker) == "" {
			return zones, nil
		}
		input.Marker = page.NextMarker
	}
	return nil, fmt.Errorf("got more than %d pages", maxPages)
}
