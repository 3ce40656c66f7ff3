package removal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/berth-csi/berth/internal/aws/client"
	"github.com/berth-csi/berth/internal/aws/ownership"
)

// Tags of volumes and snapshots that the EBS driver creates. The root disks of a cluster's machines have the cluster's tag, but not
// these. See https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/tagging.md.
const (
	volumeTag   = "CSIVolumeName"
	snapshotTag = "CSIVolumeSnapshotName"
)

// GroupTag is the tag of the security groups that Berth creates. The security groups of a cluster's machines have the cluster's tag,
// but not this one.
const GroupTag = "berth-csi.io/mount-targets"

// pageSize is the maximum number of volumes, snapshots or security groups in one answer.
const pageSize = 500

// Permissions are the permissions that Find and Delete need. AWS deletes a mount target's network interface with the caller's permissions.
var Permissions = append([]string{
	"ec2:DeleteVolume", "ec2:DeleteSnapshot", "ec2:DeleteSecurityGroup", "ec2:DeleteNetworkInterface",
	"elasticfilesystem:DeleteAccessPoint", "elasticfilesystem:DeleteMountTarget", "elasticfilesystem:DeleteFileSystem",
}, PermissionsToFind...)

// PermissionsToFind are the permissions that Find needs.
var PermissionsToFind = []string{
	"ec2:DescribeVolumes", "ec2:DescribeSnapshots", "ec2:DescribeSecurityGroups",
	"elasticfilesystem:DescribeFileSystems", "elasticfilesystem:DescribeMountTargets", "elasticfilesystem:DescribeAccessPoints",
	"elasticfilesystem:DescribeMountTargetSecurityGroups", "ec2:DescribeNetworkInterfaceAttribute",
}

// Find lists the resources with the cluster's tags. It marks as kept the resources that were not created for the cluster, unless trusted
// has the ID of the resource or, for an access point, of its file system.
func Find(ctx context.Context, clients *client.Clients, cluster ownership.Cluster, trusted ...string) (*Inventory, error) {
	if err := cluster.Check(); err != nil {
		return nil, err
	}
	c, of, all := finder{clients}, prover{cluster, trusted}, []Resource{}
	for _, find := range []func(context.Context, prover) ([]Resource, error){c.fileSystems, c.volumes, c.snapshots, c.securityGroups} {
		found, err := find(ctx, of)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if err := c.keepGroups(ctx, all); err != nil {
		return nil, err
	}
	inventory := sorted(all)
	inventory.Cluster = cluster
	return inventory, nil
}

// finder reads AWS.
type finder struct{ *client.Clients }

// sorted returns resources in the order of their deletion.
func sorted(all []Resource) *Inventory {
	slices.SortFunc(all, func(a, b Resource) int {
		if order := slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})
	inventory := &Inventory{Delete: []Resource{}, Keep: []Resource{}}
	for _, r := range all {
		if r.Kept == "" {
			inventory.Delete = append(inventory.Delete, r)
		} else {
			inventory.Keep = append(inventory.Keep, r)
		}
	}
	return inventory
}

// fileSystems returns file systems with their access points and mount targets.
func (c finder) fileSystems(ctx context.Context, cluster prover) ([]Resource, error) {
	points, err := c.accessPoints(ctx)
	if err != nil {
		return nil, err
	}
	var found []Resource
	for pages := efs.NewDescribeFileSystemsPaginator(c.EFS, &efs.DescribeFileSystemsInput{}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing file systems: %w", err)
		}
		for _, fs := range page.FileSystems {
			of, err := c.fileSystem(ctx, cluster, fs, points[aws.ToString(fs.FileSystemId)])
			if err != nil {
				return nil, err
			}
			found = append(found, of...)
		}
	}
	return found, nil
}

// accessPoints returns all access points of the account, by file system.
func (c finder) accessPoints(ctx context.Context) (map[string][]efstypes.AccessPointDescription, error) {
	found := map[string][]efstypes.AccessPointDescription{}
	for pages := efs.NewDescribeAccessPointsPaginator(c.EFS, &efs.DescribeAccessPointsInput{}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing access points: %w", err)
		}
		for _, point := range page.AccessPoints {
			fs := aws.ToString(point.FileSystemId)
			found[fs] = append(found[fs], point)
		}
	}
	return found, nil
}

// fileSystem returns a file system, its access points and its mount targets if it has the cluster's tag, or else only its access points
// that have the tag. A file system with a kept access point is kept, because its deletion would also delete the access point.
func (c finder) fileSystem(ctx context.Context, cluster prover, fs efstypes.FileSystemDescription, points []efstypes.AccessPointDescription) ([]Resource, error) {
	id := aws.ToString(fs.FileSystemId)
	claim := cluster.Of(client.EFSTags(fs.Tags))
	unproven := cluster.fileSystem(fs)
	kept := cmp.Or(claim.Kept, unproven)
	var found []Resource
	var others []string
	for _, point := range points {
		of := cluster.Of(client.EFSTags(point.Tags))
		r := Resource{Kind: AccessPoint, ID: aws.ToString(point.AccessPointId), Name: aws.ToString(point.Name), FileSystem: id, Kept: of.Kept}
		switch {
		case !of.Mine && !claim.Mine:
			continue
		case !of.Mine:
			r.Kept = "it does not have the tag " + cluster.Key()
		case r.Kept == "":
			r.Kept = cluster.accessPoint(point, unproven == "")
		}
		if r.Kept != "" {
			others = append(others, r.ID)
		}
		found = append(found, r)
	}
	if !claim.Mine {
		return found, nil
	}
	if kept == "" && len(others) > 0 {
		kept = fmt.Sprintf("it has %d access points that are kept, such as %s", len(others), others[0])
	}
	itself := Resource{Kind: FileSystem, ID: id, Name: aws.ToString(fs.Name), Kept: kept}
	if fs.SizeInBytes != nil {
		itself.Bytes = fs.SizeInBytes.Value
	}
	targets, err := c.mountTargets(ctx, id)
	if client.CodeOf(err) == "FileSystemNotFound" { // it was deleted after it was listed, with everything in it
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, target := range targets {
		r := Resource{Kind: MountTarget, ID: target, FileSystem: id}
		if kept != "" {
			r.Kept = "its file system is kept"
		}
		found = append(found, r)
	}
	return append(found, itself), nil
}

// mountTargets returns the IDs of a file system's mount targets.
func (c finder) mountTargets(ctx context.Context, fileSystem string) ([]string, error) {
	var found []string
	for pages := efs.NewDescribeMountTargetsPaginator(c.EFS, &efs.DescribeMountTargetsInput{FileSystemId: aws.String(fileSystem)}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the mount targets of file system %s: %w", fileSystem, err)
		}
		for _, target := range page.MountTargets {
			found = append(found, aws.ToString(target.MountTargetId))
		}
	}
	return found, nil
}

// keepGroups marks the security groups of kept mount targets as kept: AWS does not delete a security group that is in use.
func (c finder) keepGroups(ctx context.Context, all []Resource) error {
	for _, target := range all {
		if target.Kind != MountTarget || target.Kept == "" {
			continue
		}
		groups, err := c.groupsOf(ctx, target.ID)
		if err != nil {
			return err
		}
		for i, r := range all {
			if r.Kind == SecurityGroup && r.Kept == "" && slices.Contains(groups, r.ID) {
				all[i].Kept = fmt.Sprintf("mount target %s, which is kept, uses it", target.ID)
			}
		}
	}
	return nil
}

// groupsOf returns the security groups of a mount target. A mount target that is gone or not complete has none.
func (c finder) groupsOf(ctx context.Context, target string) ([]string, error) {
	found, err := c.EFS.DescribeMountTargetSecurityGroups(ctx, &efs.DescribeMountTargetSecurityGroupsInput{MountTargetId: &target})
	switch code := client.CodeOf(err); {
	case code == "MountTargetNotFound" || code == "IncorrectMountTargetState":
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the security groups of mount target %s: %w", target, err)
	}
	return found.SecurityGroups, nil
}

// marked returns a filter for resources with the cluster's tag.
func marked(cluster prover) []ec2types.Filter {
	return []ec2types.Filter{{Name: aws.String("tag-key"), Values: []string{cluster.Key()}}}
}

func (c finder) volumes(ctx context.Context, cluster prover) (found []Resource, err error) {
	for pages := c.EC2.Volumes(&ec2.DescribeVolumesInput{Filters: marked(cluster), MaxResults: aws.Int32(pageSize)}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing volumes: %w", err)
		}
		for _, volume := range page.Volumes {
			tags := client.EC2Tags(volume.Tags)
			if tags[volumeTag] == "" {
				continue
			}
			r := Resource{Kind: Volume, ID: aws.ToString(volume.VolumeId), Name: tags["Name"], Bytes: int64(aws.ToInt32(volume.Size)) << 30}
			r.Kept = cluster.Of(tags).Kept
			if r.Kept == "" && len(volume.Attachments) > 0 {
				r.Kept = "it is attached to instance " + aws.ToString(volume.Attachments[0].InstanceId)
			}
			found = append(found, r)
		}
	}
	return found, nil
}

func (c finder) snapshots(ctx context.Context, cluster prover) (found []Resource, err error) {
	for pages := c.EC2.Snapshots(&ec2.DescribeSnapshotsInput{Filters: marked(cluster), OwnerIds: []string{"self"}, MaxResults: aws.Int32(pageSize)}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing snapshots: %w", err)
		}
		for _, snapshot := range page.Snapshots {
			tags := client.EC2Tags(snapshot.Tags)
			if tags[snapshotTag] == "" {
				continue
			}
			found = append(found, Resource{Kind: Snapshot, ID: aws.ToString(snapshot.SnapshotId), Name: tags["Name"],
				Bytes: int64(aws.ToInt32(snapshot.VolumeSize)) << 30, Kept: cmp.Or(cluster.Of(tags).Kept, cluster.snapshot(snapshot))})
		}
	}
	return found, nil
}

func (c finder) securityGroups(ctx context.Context, cluster prover) (found []Resource, err error) {
	for pages := c.EC2.SecurityGroups(&ec2.DescribeSecurityGroupsInput{Filters: marked(cluster), MaxResults: aws.Int32(pageSize)}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing security groups: %w", err)
		}
		for _, group := range page.SecurityGroups {
			tags := client.EC2Tags(group.Tags)
			if _, ours := tags[GroupTag]; !ours {
				continue
			}
			found = append(found, Resource{Kind: SecurityGroup, ID: aws.ToString(group.GroupId), Name: aws.ToString(group.GroupName), Kept: cmp.Or(cluster.Of(tags).Kept, cluster.securityGroup(group))})
		}
	}
	return found, nil
}
