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

// maxPolls is the maximum number of attempts for a resource that is in use or not gone yet, in about ten minutes. Then Delete continues
// with the others. Mount targets take some minutes to disappear, and their network interfaces hardly longer.
const maxPolls = 120

// Delete deletes the resources in inventory.Delete, and waits until they are gone. If one cannot be deleted, or stays in use, it deletes
// the others as far as possible, and returns an error. It calls gone, unless that is nil, for each deleted resource. It checks each
// resource again right before the deletion: it keeps resources that no longer belong to the cluster, and file systems with an access
// point that is not in the inventory, or was not deleted.
func Delete(ctx context.Context, c *client.Clients, inventory *Inventory, gone func(Resource)) error {
	if gone == nil {
		gone = func(Resource) {}
	}
	d := &deletion{finder: finder{c}, inventory: inventory}
	for _, kind := range kinds {
		var all []Resource
		for _, r := range inventory.Delete {
			if r.Kind == kind {
				all = append(all, r)
			}
		}
		deleting := d.each(ctx, all, "deleting %s", d.request)
		d.each(ctx, deleting, "waiting until %s is gone", func(ctx context.Context, r Resource) (bool, error) {
			is, err := d.isGone(ctx, r)
			if is && err == nil {
				gone(r)
			}
			return is, err
		})
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

// each calls try for all resources until each is done, but at most maxPolls times, or until ctx ends. It returns the resources for which
// try has succeeded. doing describes an attempt, with %s for the resource.
func (d *deletion) each(ctx context.Context, all []Resource, doing string, try func(context.Context, Resource) (done bool, err error)) (succeeded []Resource) {
	fail := func(r Resource, err error) {
		d.failed, d.errs = append(d.failed, r), append(d.errs, fmt.Errorf(doing+": %w", r, err))
	}
	waits := map[string]error{}
	polls := 0
	err := d.Poll(ctx, func(ctx context.Context) (bool, error) {
		polls++
		all = slices.DeleteFunc(slices.Clone(all), func(r Resource) bool {
			done, err := try(ctx, r)
			switch {
			case !done:
				waits[r.ID] = err
			case err != nil:
				fail(r, err)
			default:
				succeeded = append(succeeded, r)
			}
			return done
		})
		return len(all) == 0 || polls == maxPolls, nil
	})
	for _, r := range all {
		if why := waits[r.ID]; err == nil {
			fail(r, fmt.Errorf("given up after %d attempts: %w; %s", maxPolls, why, fmt.Sprintf(actions[r.Kind].help, r.ID)))
		} else {
			fail(r, fmt.Errorf("%w: %w", err, why))
		}
	}
	return succeeded
}

// action deletes and reads a kind of resources.
type action struct {
	delete func(context.Context, *client.Clients, string) error
	// read returns an error with the code notFound when the resource is gone.
	read func(context.Context, *client.Clients, string) error
	// notFound are the codes of the errors for a resource that does not exist.
	notFound []string
	// inUse are the codes of errors for a resource that is still in use, and is normally released without further action.
	inUse []string
	// help says, with %s for the ID, what to do about a resource that stays.
	help string
}

// errorOf returns the error of a request whose answer does not matter.
func errorOf[Answer any](_ Answer, err error) error { return err }

var actions = map[Kind]action{
	AccessPoint: {
		delete: func(ctx context.Context, c *client.Clients, id string) error {
			return errorOf(c.EFS.DeleteAccessPoint(ctx, &efs.DeleteAccessPointInput{AccessPointId: &id}))
		},
		read: func(ctx context.Context, c *client.Clients, id string) error {
			return errorOf(c.EFS.DescribeAccessPoints(ctx, &efs.DescribeAccessPointsInput{AccessPointId: &id}))
		},
		notFound: []string{"AccessPointNotFound"},
		help:     "see its state with `aws efs describe-access-points --access-point-id %s`, and run the command again",
	},
	MountTarget: {
		delete: func(ctx context.Context, c *client.Clients, id string) error {
			return errorOf(c.EFS.DeleteMountTarget(ctx, &efs.DeleteMountTargetInput{MountTargetId: &id}))
		},
		read: func(ctx context.Context, c *client.Clients, id string) error {
			return errorOf(c.EFS.DescribeMountTargets(ctx, &efs.DescribeMountTargetsInput{MountTargetId: &id}))
		},
		notFound: []string{"MountTargetNotFound"},
		inUse:    []string{"DependencyTimeout"},
		help:     "see its state with `aws efs describe-mount-targets --mount-target-id %s`, and run the command again",
	},
	FileSystem: {
		delete: func(ctx context.Context, c *client.Clients, id string) error {
			return errorOf(c.EFS.DeleteFileSystem(ctx, &efs.DeleteFileSystemInput{FileSystemId: &id}))
		},
		read: func(ctx context.Context, c *client.Clients, id string) error {
			return errorOf(c.EFS.DescribeFileSystems(ctx, &efs.DescribeFileSystemsInput{FileSystemId: &id}))
		},
		notFound: []string{"FileSystemNotFound"},
		inUse:    []string{"FileSystemInUse", "DependencyTimeout"},
		help:     "see what is in it with `aws efs describe-mount-targets --file-system-id %s`, and run the command again",
	},
	Volume: {
		delete: func(ctx context.Context, c *client.Clients, id string) error {
			return errorOf(c.EC2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &id}))
		},
		read: func(ctx context.Context, c *client.Clients, id string) error {
			return errorOf(c.EC2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{id}}))
		},
		notFound: []string{"InvalidVolume.NotFound"},
		help:     "see its state with `aws ec2 describe-volumes --volume-ids %s`, and run the command again",
	},
	Snapshot: {
		delete: func(ctx context.Context, c *client.Clients, id string) error {
			return errorOf(c.EC2.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &id}))
		},
		read: func(ctx context.Context, c *client.Clients, id string) error {
			return errorOf(c.EC2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{id}}))
		},
		notFound: []string{"InvalidSnapshot.NotFound"},
		help:     "see its state with `aws ec2 describe-snapshots --snapshot-ids %s`, and run the command again",
	},
	SecurityGroup: {
		delete: func(ctx context.Context, c *client.Clients, id string) error {
			return errorOf(c.EC2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &id}))
		},
		read: func(ctx context.Context, c *client.Clients, id string) error {
			return errorOf(c.EC2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{id}}))
		},
		notFound: []string{"InvalidGroup.NotFound"},
		inUse:    []string{"DependencyViolation"}, // the network interface of a mount target outlives it
		help:     "see what uses it with `aws ec2 describe-network-interfaces --filters Name=group-id,Values=%s`, and run the command again",
	},
}

// request asks AWS to delete a resource. It is done if AWS deletes it, or if the resource is already gone.
func (d *deletion) request(ctx context.Context, r Resource) (done bool, err error) {
	do := actions[r.Kind]
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
}

// isGone is done if a resource is gone, or if AWS reports another error.
func (d *deletion) isGone(ctx context.Context, r Resource) (done bool, err error) {
	do := actions[r.Kind]
	switch err := do.read(ctx, d.Clients, r.ID); {
	case err == nil:
		return false, errors.New("AWS still lists it")
	case slices.Contains(do.notFound, client.CodeOf(err)):
		return true, nil
	default:
		return true, err
	}
}
