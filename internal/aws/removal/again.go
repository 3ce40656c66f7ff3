package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/berth-csi/berth/internal/aws/client"
)

// lookAgain returns an error unless a resource may still be deleted: deleting mount targets takes minutes, in which
// others in the account may change tags or create access points. It returns AWS's error if the resource is gone.
func (d *deletion) lookAgain(ctx context.Context, r Resource) error {
	switch r.Kind {
	case AccessPoint:
		page, err := d.EFS.DescribeAccessPoints(ctx, &efs.DescribeAccessPointsInput{AccessPointId: &r.ID})
		if err != nil || len(page.AccessPoints) == 0 {
			return err
		}
		return d.inventory.stillMine(r, client.EFSTags(page.AccessPoints[0].Tags))
	case MountTarget:
		return d.lookIntoFileSystem(ctx, r.FileSystem)
	case FileSystem:
		for _, target := range d.failed {
			if target.Kind == MountTarget && target.FileSystem == r.ID {
				return fmt.Errorf("its %s was not deleted", target)
			}
		}
		return d.lookIntoFileSystem(ctx, r.ID)
	case Volume:
		page, err := d.EC2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{r.ID}})
		if err != nil || len(page.Volumes) == 0 {
			return err
		}
		if len(page.Volumes[0].Attachments) > 0 {
			return fmt.Errorf("meanwhile, it was attached to instance %s", aws.ToString(page.Volumes[0].Attachments[0].InstanceId))
		}
		return d.inventory.stillMine(r, client.EC2Tags(page.Volumes[0].Tags))
	case Snapshot:
		page, err := d.EC2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{r.ID}})
		if err != nil || len(page.Snapshots) == 0 {
			return err
		}
		return d.inventory.stillMine(r, client.EC2Tags(page.Snapshots[0].Tags))
	case SecurityGroup:
		for _, target := range d.failed {
			if target.Kind != MountTarget {
				continue
			}
			if groups, err := d.groupsOf(ctx, target.ID); err != nil || slices.Contains(groups, r.ID) {
				return errors.Join(fmt.Errorf("%s was not deleted, and may use it", target), err)
			}
		}
		page, err := d.EC2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{r.ID}})
		if err != nil || len(page.SecurityGroups) == 0 {
			return err
		}
		return d.inventory.stillMine(r, client.EC2Tags(page.SecurityGroups[0].Tags))
	}
	return fmt.Errorf("%s is of an unknown kind", r)
}

// marks are the tags that Find requires of a kind of resources besides the cluster's tag.
var marks = map[Kind]string{Volume: volumeTag, Snapshot: snapshotTag, SecurityGroup: GroupTag}

func (i *Inventory) stillMine(r Resource, tags map[string]string) error {
	claim := i.Cluster.Of(tags)
	_, marked := tags[marks[r.Kind]]
	switch {
	case !claim.Mine || marks[r.Kind] != "" && !marked:
		return errors.New("meanwhile, its tags were changed: it is not the cluster's any more")
	case claim.Kept != "":
		return fmt.Errorf("meanwhile, its tags were changed: %s", claim.Kept)
	}
	return nil
}

// lookIntoFileSystem checks a file system before the file system or one of its mount targets is deleted. The file system stays if one of
// its access points stays: deleting it would delete the access point, too.
func (d *deletion) lookIntoFileSystem(ctx context.Context, id string) error {
	page, err := d.EFS.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: &id})
	if err != nil {
		return err
	}
	if len(page.FileSystems) == 0 {
		return nil
	}
	if err := d.inventory.stillMine(Resource{Kind: FileSystem, ID: id}, client.EFSTags(page.FileSystems[0].Tags)); err != nil {
		return err
	}
	for pages := efs.NewDescribeAccessPointsPaginator(d.EFS, &efs.DescribeAccessPointsInput{FileSystemId: &id}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("listing the access points of file system %s: %w", id, err)
		}
		for _, point := range page.AccessPoints {
			if err := d.lookAtPoint(point); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookAtPoint returns an error if its file system must stay for an access point. AWS may list an access point for a while after it is gone.
func (d *deletion) lookAtPoint(point efstypes.AccessPointDescription) error {
	id, fs := aws.ToString(point.AccessPointId), aws.ToString(point.FileSystemId)
	is := func(r Resource) bool { return r.Kind == AccessPoint && r.ID == id }
	switch {
	case !slices.ContainsFunc(d.inventory.Delete, is):
		return fmt.Errorf("access point %s was created in file system %s meanwhile: find out whose it is, and run the command again", id, fs)
	case slices.ContainsFunc(d.failed, is):
		return fmt.Errorf("access point %s in file system %s was not deleted, and would be deleted with it", id, fs)
	}
	if err := d.inventory.stillMine(Resource{Kind: AccessPoint, ID: id}, client.EFSTags(point.Tags)); err != nil {
		return fmt.Errorf("access point %s in file system %s: %w", id, fs, err)
	}
	return nil
}
