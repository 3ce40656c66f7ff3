package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"

	"github.com/berth-csi/berth/internal/aws/client"
)

// lookAgain returns an error unless a resource of an inventory may still be deleted: deleting mount targets takes minutes, in which
// others in the account may change tags or create access points. It returns AWS's error if the resource is gone.
func (c finder) lookAgain(ctx context.Context, inventory *Inventory, r Resource) error {
	switch r.Kind {
	case AccessPoint:
		page, err := c.EFS.DescribeAccessPoints(ctx, &efs.DescribeAccessPointsInput{AccessPointId: &r.ID})
		if err != nil || len(page.AccessPoints) == 0 {
			return err
		}
		return inventory.stillMine(r, client.EFSTags(page.AccessPoints[0].Tags))
	case MountTarget:
		return c.lookIntoFileSystem(ctx, inventory, r, r.FileSystem)
	case FileSystem:
		return c.lookIntoFileSystem(ctx, inventory, r, r.ID)
	case Volume:
		page, err := c.EC2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{r.ID}})
		if err != nil || len(page.Volumes) == 0 {
			return err
		}
		if len(page.Volumes[0].Attachments) > 0 {
			return fmt.Errorf("meanwhile, it was attached to instance %s", aws.ToString(page.Volumes[0].Attachments[0].InstanceId))
		}
		return inventory.stillMine(r, client.EC2Tags(page.Volumes[0].Tags))
	case Snapshot:
		page, err := c.EC2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{r.ID}})
		if err != nil || len(page.Snapshots) == 0 {
			return err
		}
		return inventory.stillMine(r, client.EC2Tags(page.Snapshots[0].Tags))
	case SecurityGroup:
		page, err := c.EC2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{r.ID}})
		if err != nil || len(page.SecurityGroups) == 0 {
			return err
		}
		return inventory.stillMine(r, client.EC2Tags(page.SecurityGroups[0].Tags))
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

// lookIntoFileSystem looks at a file system before it, or a mount target of it, is deleted.
func (c finder) lookIntoFileSystem(ctx context.Context, inventory *Inventory, r Resource, id string) error {
	page, err := c.EFS.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: &id})
	if err != nil {
		return err
	}
	if len(page.FileSystems) == 0 {
		return nil
	}
	if err := inventory.stillMine(Resource{Kind: FileSystem, ID: id}, client.EFSTags(page.FileSystems[0].Tags)); err != nil {
		return err
	}
	for pages := efs.NewDescribeAccessPointsPaginator(c.EFS, &efs.DescribeAccessPointsInput{FileSystemId: &id}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("listing the access points of file system %s: %w", id, err)
		}
		for _, point := range page.AccessPoints {
			shown := slices.ContainsFunc(inventory.Delete, func(r Resource) bool { return r.Kind == AccessPoint && r.ID == aws.ToString(point.AccessPointId) })
			if !shown {
				return fmt.Errorf("access point %s was created in file system %s meanwhile: find out whose it is, and run the command again", aws.ToString(point.AccessPointId), id)
			}
		}
	}
	return nil
}
