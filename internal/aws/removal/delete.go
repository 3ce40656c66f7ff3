package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"

	"github.com/berth-csi/berth/internal/aws/client"
)

// Delete deletes the resources in inventory.Delete, and waits until they are gone. If one cannot be deleted, it deletes the others
// as far as possible, and returns an error. It calls gone, unless that is nil, for each deleted resource. If a resource is still in
// use, it waits until ctx ends. It checks each resource again right before the deletion: it keeps resources that no longer belong
// to the cluster, and file systems with an access point that is not in the inventory, or was not deleted.
func Delete(ctx context.Context, c *client.Clients, inventory *Inventory, gone func(Resource)) error {
	d := &deletion{finder: finder{c}, inventory: inventory}
	for _, kind := range kinds {
		var deleting []Resource
		for _, r := range inventory.Delete {
			if r.Kind != kind {
				continue
			}
			if err := d.request(ctx, r); err != nil {
				d.fail(r, fmt.Errorf("deleting %s: %w", r, err))
			} else {
				deleting = append(deleting, r)
			}
		}
		for _, r := range deleting {
			if err := d.awaitGone(ctx, r); err != nil {
				d.fail(r, fmt.Errorf("waiting until %s is gone: %w", r, err))
			} else if gone != nil {
				gone(r)
			}
		}
	}
	return errors.Join(d.errs...)
}

// deletion is a run of Delete.
type deletion struct {
	finder
	inventory *Inventory
	// failed are the resources that were not deleted, and errs says why.
	failed []Resource
	errs   []error
}

func (d *deletion) fail(r Resource, err error) {
	d.failed, d.errs = append(d.failed, r), append(d.errs, err)
}

// action deletes and reads a kind of resources.
type action struct {
	delete func(context.Context, *client.Clients, string) error
	// read returns an error with the code notFound when the resource is gone.
	read func(context.Context, *client.Clients, string) error
	// notFound are the codes of the errors for a resource that does not exist.
	notFound []string
	// inUse are the codes of errors for a resource that is still in use, but will be released without further action.
	inUse []string
}

var actions = map[Kind]action{
	AccessPoint: {
		delete: func(ctx context.Context, c *client.Clients, id string) error {
			_, err := c.EFS.DeleteAccessPoint(ctx, &efs.DeleteAccessPointInput{AccessPointId: &id})
			return err
		},
		read: func(ctx context.Context, c *client.Clients, id string) error {
			_, err := c.EFS.DescribeAccessPoints(ctx, &efs.DescribeAccessPointsInput{AccessPointId: &id})
			return err
		},
		notFound: []string{"AccessPointNotFound"},
	},
	MountTarget: {
		delete: func(ctx context.Context, c *client.Clients, id string) error {
			_, err := c.EFS.DeleteMountTarget(ctx, &efs.DeleteMountTargetInput{MountTargetId: &id})
			return err
		},
		read: func(ctx context.Context, c *client.Clients, id string) error {
			_, err := c.EFS.DescribeMountTargets(ctx, &efs.DescribeMountTargetsInput{MountTargetId: &id})
			return err
		},
		notFound: []string{"MountTargetNotFound"},
		inUse:    []string{"DependencyTimeout"},
	},
	FileSystem: {
		delete: func(ctx context.Context, c *client.Clients, id string) error {
			_, err := c.EFS.DeleteFileSystem(ctx, &efs.DeleteFileSystemInput{FileSystemId: &id})
			return err
		},
		read: func(ctx context.Context, c *client.Clients, id string) error {
			_, err := c.EFS.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: &id})
			return err
		},
		notFound: []string{"FileSystemNotFound"},
		inUse:    []string{"FileSystemInUse", "DependencyTimeout"},
	},
	Volume: {
		delete: func(ctx context.Context, c *client.Clients, id string) error {
			_, err := c.EC2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &id})
			return err
		},
		read: func(ctx context.Context, c *client.Clients, id string) error {
			_, err := c.EC2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
			return err
		},
		notFound: []string{"InvalidVolume.NotFound"},
	},
	Snapshot: {
		delete: func(ctx context.Context, c *client.Clients, id string) error {
			_, err := c.EC2.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &id})
			return err
		},
		read: func(ctx context.Context, c *client.Clients, id string) error {
			_, err := c.EC2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
			return err
		},
		notFound: []string{"InvalidSnapshot.NotFound"},
	},
	SecurityGroup: {
		delete: func(ctx context.Context, c *client.Clients, id string) error {
			_, err := c.EC2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &id})
			return err
		},
		read: func(ctx context.Context, c *client.Clients, id string) error {
			_, err := c.EC2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{id}})
			return err
		},
		notFound: []string{"InvalidGroup.NotFound"},
		inUse:    []string{"DependencyViolation"}, // the network interface of a mount target outlives it
	},
}

// request asks AWS to delete a resource. It succeeds if the resource is already gone.
func (d *deletion) request(ctx context.Context, r Resource) error {
	do := actions[r.Kind]
	return d.Poll(ctx, func(ctx context.Context) (bool, error) {
		switch err := d.lookAgain(ctx, r); {
		case err == nil:
		case slices.Contains(do.notFound, client.CodeOf(err)):
			return true, nil
		default:
			return true, err
		}
		switch err := do.delete(ctx, d.Clients, r.ID); {
		case err == nil || slices.Contains(do.notFound, client.CodeOf(err)):
			return true, nil
		case slices.Contains(do.inUse, client.CodeOf(err)):
			return false, err
		default:
			return true, err
		}
	})
}

// awaitGone waits until a resource is gone.
func (d *deletion) awaitGone(ctx context.Context, r Resource) error {
	do := actions[r.Kind]
	return d.Poll(ctx, func(ctx context.Context) (bool, error) {
		switch err := do.read(ctx, d.Clients, r.ID); {
		case err == nil:
			return false, errors.New("AWS still lists it")
		case slices.Contains(do.notFound, client.CodeOf(err)):
			return true, nil
		default:
			return true, err
		}
	})
}
