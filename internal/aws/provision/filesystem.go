package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/berth-csi/berth/internal/aws/client"
	"github.com/berth-csi/berth/internal/aws/removal"
)

// fileSystem returns the ID of the file system, which it creates if there is none. In a dry run, the ID is empty if there is none.
func (c creator) fileSystem(ctx context.Context) (string, error) {
	token := c.Cluster.FileSystemToken(c.Name)
	found, err := c.findFileSystem(ctx, token)
	if err != nil {
		return "", err
	}
	existed := found != nil && found.LifeCycleState != efstypes.LifeCycleStateDeleting
	if !existed && c.dryRun {
		c.report(Resource{Kind: removal.FileSystem, About: c.name()})
		return "", nil
	}
	if err := c.Poll(ctx, func(ctx context.Context) (bool, error) {
		switch found, err = c.findFileSystem(ctx, token); {
		case err != nil:
			return true, err
		case found == nil: // a file system with the token that was being deleted is gone now
			_, err := c.EFS.CreateFileSystem(ctx, &efs.CreateFileSystemInput{
				CreationToken: &token, Encrypted: aws.Bool(true), PerformanceMode: efstypes.PerformanceModeGeneralPurpose, ThroughputMode: efstypes.ThroughputModeElastic,
				Tags: efsTags(c.tags(nil)),
			})
			return unlessExists(err, "FileSystemAlreadyExists")
		case found.LifeCycleState == efstypes.LifeCycleStateAvailable:
			return true, nil
		case found.LifeCycleState == efstypes.LifeCycleStateError:
			return true, errors.New("AWS says that it is in state error")
		}
		return false, fmt.Errorf("it is %s", found.LifeCycleState)
	}); err != nil {
		return "", fmt.Errorf("waiting for file system %s: %w", c.name(), err)
	}
	c.report(Resource{Kind: removal.FileSystem, ID: aws.ToString(found.FileSystemId), About: c.name(), Found: existed})
	return aws.ToString(found.FileSystemId), nil
}

// unlessExists returns the result of a poll that has tried to create a resource. If AWS answers with this code, the resource exists
// already, and the next poll shows it.
func unlessExists(err error, code string) (done bool, _ error) {
	switch {
	case err == nil:
		return false, errors.New("AWS does not list it yet")
	case client.CodeOf(err) == code:
		return false, fmt.Errorf("AWS does not list it yet, and says: %w", err)
	}
	return true, err
}

// findFileSystem returns the file system with a token, or nil.
func (c creator) findFileSystem(ctx context.Context, token string) (*efstypes.FileSystemDescription, error) {
	page, err := c.EFS.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{CreationToken: &token})
	if err != nil {
		return nil, fmt.Errorf("looking for file system %s: %w", c.name(), err)
	}
	if len(page.FileSystems) == 0 {
		return nil, nil
	}
	fs := page.FileSystems[0]
	if fs.LifeCycleState == efstypes.LifeCycleStateDeleting {
		return &fs, nil
	}
	what := "file system " + aws.ToString(fs.FileSystemId)
	if err := c.mustBeOurs(what, client.EFSTags(fs.Tags)); err != nil {
		return nil, err
	}
	differences, err := c.settingDifferences(ctx, fs)
	if err != nil {
		return nil, err
	}
	return &fs, c.mustBeAsAsked(what, "it encrypted, with a key of its account, in all zones, with performance mode "+string(efstypes.PerformanceModeGeneralPurpose)+
		", without a replication, a lifecycle or automatic backups, and without a policy that allows anything but mounting, or names other accounts", append(differencesOf(fs), differences...))
}

// differencesOf returns how a file system differs from the request. Whoever controls the key of another account can take all data away.
func differencesOf(fs efstypes.FileSystemDescription) (all []string) {
	if !aws.ToBool(fs.Encrypted) {
		all = append(all, "it is not encrypted")
	}
	if key, owner := aws.ToString(fs.KmsKeyId), aws.ToString(fs.OwnerId); key != "" && owner != "" && !strings.Contains(key, ":"+owner+":") {
		all = append(all, fmt.Sprintf("it is encrypted with %s, the key of another account than %s", key, owner))
	}
	if fs.PerformanceMode != "" && fs.PerformanceMode != efstypes.PerformanceModeGeneralPurpose {
		all = append(all, fmt.Sprintf("its performance mode is %s", fs.PerformanceMode))
	}
	if zone := aws.ToString(fs.AvailabilityZoneName); zone != "" {
		all = append(all, fmt.Sprintf("its files are in zone %s alone", zone))
	}
	if p := fs.FileSystemProtection; p != nil && p.ReplicationOverwriteProtection == efstypes.ReplicationOverwriteProtectionDisabled {
		all = append(all, "a replication may overwrite it")
	}
	return all
}

// mountTargets creates a mount target in each zone that has nodes and can have a mount target.
func (c creator) mountTargets(ctx context.Context, fileSystem, group string, nodes network) error {
	existing := map[string]efstypes.MountTargetDescription{}
	if fileSystem != "" {
		var err error
		if existing, err = c.findMountTargets(ctx, fileSystem); err != nil {
			return err
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(existing)) {
		if err := c.mustHaveGroup(ctx, existing[zone], group); err != nil {
			return err
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(nodes.subnets)) {
		if _, found := existing[zone]; found || c.dryRun {
			continue
		}
		err := c.createMountTarget(ctx, fileSystem, nodes.subnets[zone], group)
		if client.CodeOf(err) == "UnsupportedAvailabilityZone" {
			delete(nodes.subnets, zone)
			nodes.leftOut[zone] = "EFS does not support the zone"
			continue
		}
		if err != nil && client.CodeOf(err) != "MountTargetConflict" { // the next poll shows it
			return fmt.Errorf("creating a mount target in zone %s, subnet %s: %w", zone, nodes.subnets[zone], err)
		}
	}
	if err := nodes.mustHaveZone(); err != nil {
		return err
	}
	for _, zone := range slices.Sorted(maps.Keys(nodes.leftOut)) {
		c.report(Resource{Kind: removal.MountTarget, About: zone, LeftOut: nodes.leftOut[zone]})
	}
	for _, zone := range slices.Sorted(maps.Keys(nodes.subnets)) {
		_, found := existing[zone]
		r := Resource{Kind: removal.MountTarget, About: zone, Found: found}
		if !c.dryRun || found {
			target, err := c.awaitMountTarget(ctx, fileSystem, zone, nodes.subnets[zone], group)
			if err == nil {
				err = c.mustHaveGroup(ctx, target, group)
			}
			if err != nil {
				return fmt.Errorf("waiting for the mount target in zone %s: %w", zone, err)
			}
			r.ID = aws.ToString(target.MountTargetId)
		}
		c.report(r)
	}
	if c.dryRun {
		return nil
	}
	if err := c.awaitGroups(ctx, fileSystem, group); err != nil {
		return fmt.Errorf("checking all mount targets of file system %s: %w", fileSystem, err)
	}
	return nil
}

// awaitGroups waits until AWS shows the security groups of all mount targets, and returns an error if they are not as requested: in a zone
// without nodes, somebody else may have made a mount target a moment ago, or after the others were listed.
func (c creator) awaitGroups(ctx context.Context, fileSystem, group string) error {
	return c.Poll(ctx, func(ctx context.Context) (bool, error) {
		all, err := c.findMountTargets(ctx, fileSystem)
		if err != nil {
			return true, err
		}
		var incomplete error
		for _, zone := range slices.Sorted(maps.Keys(all)) {
			switch target := all[zone]; target.LifeCycleState {
			case efstypes.LifeCycleStateAvailable:
				if err := c.mustHaveGroup(ctx, target, group); err != nil {
					return true, err
				}
			case efstypes.LifeCycleStateError: // nobody can mount through it
			default:
				incomplete = fmt.Errorf("mount target %s in zone %s is %s", aws.ToString(target.MountTargetId), zone, target.LifeCycleState)
			}
		}
		return incomplete == nil, incomplete
	})
}

func (c creator) createMountTarget(ctx context.Context, fileSystem, subnet, group string) error {
	_, err := c.EFS.CreateMountTarget(ctx, &efs.CreateMountTargetInput{FileSystemId: &fileSystem, SubnetId: &subnet, SecurityGroups: []string{group}})
	return err
}

// mustHaveGroup returns an error if a mount target has another security group than the one that admits only the nodes: somebody else in
// the account may have made the mount target. A group that does not exist yet is "". AWS does not show the groups until the mount target
// is complete.
func (c creator) mustHaveGroup(ctx context.Context, target efstypes.MountTargetDescription, group string) error {
	id := aws.ToString(target.MountTargetId)
	has, err := c.EFS.DescribeMountTargetSecurityGroups(ctx, &efs.DescribeMountTargetSecurityGroupsInput{MountTargetId: &id})
	if code := client.CodeOf(err); code == "MountTargetNotFound" || code == "IncorrectMountTargetState" && target.LifeCycleState != efstypes.LifeCycleStateAvailable {
		return nil // it has gone since it was listed, or will be checked again
	}
	if err != nil {
		return fmt.Errorf("reading the security groups of mount target %s: %w", id, err)
	}
	var differences []string
	for _, other := range has.SecurityGroups {
		if other != group {
			differences = append(differences, "it has the security group "+other)
		}
	}
	return c.mustBeAsAsked("mount target "+id, strings.TrimSpace("only the security group "+c.name()+" "+group), differences)
}

// findMountTargets returns the mount targets of a file system that are not being deleted, by zone.
func (c creator) findMountTargets(ctx context.Context, fileSystem string) (map[string]efstypes.MountTargetDescription, error) {
	found := map[string]efstypes.MountTargetDescription{}
	for pages := efs.NewDescribeMountTargetsPaginator(c.EFS, &efs.DescribeMountTargetsInput{FileSystemId: &fileSystem}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the mount targets of file system %s: %w", fileSystem, err)
		}
		for _, target := range page.MountTargets {
			if target.LifeCycleState != efstypes.LifeCycleStateDeleting {
				found[aws.ToString(target.AvailabilityZoneName)] = target
			}
		}
	}
	return found, nil
}

// awaitMountTarget waits until the mount target of a zone is available. One that is being deleted must be gone before another is created.
func (c creator) awaitMountTarget(ctx context.Context, fileSystem, zone, subnet, group string) (target efstypes.MountTargetDescription, err error) {
	err = c.Poll(ctx, func(ctx context.Context) (bool, error) {
		all, err := c.findMountTargets(ctx, fileSystem)
		if err != nil {
			return true, err
		}
		found := false
		target, found = all[zone]
		id := aws.ToString(target.MountTargetId)
		switch {
		case !found:
			return unlessExists(c.createMountTarget(ctx, fileSystem, subnet, group), "MountTargetConflict")
		case target.LifeCycleState == efstypes.LifeCycleStateError:
			return true, fmt.Errorf("AWS says that mount target %s is in state error", id)
		case target.LifeCycleState != efstypes.LifeCycleStateAvailable:
			return false, fmt.Errorf("mount target %s is %s", id, target.LifeCycleState)
		}
		return true, nil
	})
	return target, err
}
