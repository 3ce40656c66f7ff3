package efs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/berth-csi/berth/drivers"
)

// accessPointPresence is about the access points of SharedVolumes.
var accessPointPresence = drivers.Presence{Interval: 10 * time.Minute, Find: findAccessPoints}

// findAccessPoints looks for access points of a file system, and for the mount targets that nodes need to reach it.
func findAccessPoints(ctx context.Context, access drivers.CloudAccess, fileSystem string, ids, zones []string) (map[string]drivers.Finding, error) {
	absent := drivers.Finding{Reason: "FileSystemNotFound", Message: "The cluster's AWS account has no such file system in its region. Correct the ID, unless it is of another account"}
	if !fileSystemID.MatchString(fileSystem) { // EFS would refuse to answer
		return forAll(ids, absent), nil
	}
	c, err := connect(access)
	if err != nil {
		return nil, err
	}
	defer c.close()
	reached, err := c.zonesWithMountTarget(ctx, fileSystem)
	if none := (*types.FileSystemNotFound)(nil); errors.As(err, &none) {
		return forAll(ids, absent), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the mount targets of file system %s: %w", fileSystem, err)
	}
	states, err := c.accessPointStates(ctx, fileSystem, ids)
	if err != nil {
		return nil, fmt.Errorf("reading the access points of file system %s: %w", fileSystem, err)
	}
	unreached := slices.DeleteFunc(regional(zones, c.Infrastructure.Status.PlatformStatus.AWS.Region), func(zone string) bool { return reached[zone] })
	found := map[string]drivers.Finding{}
	for _, id := range ids {
		found[id] = judge(states[id], unreached)
	}
	return found, nil
}

// judge decides about an access point from its state, "" if it does not exist, and from the zones of nodes without a mount target.
func judge(state types.LifeCycleState, unreached []string) drivers.Finding {
	switch {
	case state == "":
		return drivers.Finding{Reason: "AccessPointNotFound", Message: "The file system has no such access point. Correct the ID, or create it"}
	case state != types.LifeCycleStateAvailable:
		return drivers.Finding{Reason: "AccessPointNotAvailable", Message: fmt.Sprintf("The access point is %s", state)}
	case len(unreached) > 0:
		return drivers.Finding{Reason: "MountTargetMissing", Message: fmt.Sprintf(
			"No mount target is available in %s, so pods on nodes there cannot mount it. Create a mount target there", some("zone", unreached))}
	default:
		return drivers.Finding{Present: true, Reason: "Found", Message: "File system and access point exist, and each zone with nodes has a mount target"}
	}
}

// forAll is one finding for all IDs.
func forAll(ids []string, finding drivers.Finding) map[string]drivers.Finding {
	found := map[string]drivers.Finding{}
	for _, id := range ids {
		found[id] = finding
	}
	return found
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

// zonesWithMountTarget returns the zones in which a file system has an available mount target. There is at most one in each.
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

// accessPointStates returns the states of those access points of a file system that exist and have one of some IDs.
func (c *caller) accessPointStates(ctx context.Context, fileSystem string, ids []string) (map[string]types.LifeCycleState, error) {
	states, wanted := map[string]types.LifeCycleState{}, map[string]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	err := c.eachAccessPoint(ctx, fileSystem, func(ap types.AccessPointDescription) (more bool) {
		if id := aws.ToString(ap.AccessPointId); wanted[id] {
			states[id] = ap.LifeCycleState
		}
		return len(states) < len(wanted)
	})
	return states, err
}
