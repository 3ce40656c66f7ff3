package removal

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/aws/ownership"
	cloud "github.com/berth-csi/berth/lab/aws"
	cloudec2 "github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/aws/gateway"
	"github.com/berth-csi/berth/test/administrator"
)

const (
	mine   = "mine-x7k2p"
	others = "others-b4q9z"
)

// account is an account of a fake AWS with the remains of two clusters.
type account struct {
	*cloud.Cloud
	t     *testing.T
	admin *administrator.Administrator
}

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{t: t, Cloud: cloud.Start(t, cloud.Options{Settle: 20 * time.Millisecond})}
	a.admin = administrator.New(t, a.Cloud)
	return a
}

// owned returns the tags of a resource of clusters.
func owned(clusters ...string) map[string]string {
	tags := map[string]string{}
	for _, c := range clusters {
		tags["kubernetes.io/cluster/"+c] = "owned"
	}
	return tags
}

func (a *account) must(err error) {
	a.t.Helper()
	require.NoError(a.t, err)
}

// fileSystem creates a file system for the cluster, as berth aws create does.
func (a *account) fileSystem(name string, tags map[string]string) string {
	a.t.Helper()
	return a.fileSystemOf(ownership.Cluster(mine).FileSystemToken(name), tags)
}

// fileSystemOf creates a file system with a creation token.
func (a *account) fileSystemOf(token string, tags map[string]string) string {
	a.t.Helper()
	made, err := a.admin.Clients.EFS.CreateFileSystem(a.t.Context(), &efs.CreateFileSystemInput{CreationToken: &token, Encrypted: aws.Bool(true), Tags: efsTagsOf(tags)})
	a.must(err)
	a.eventually("file system "+token, func() error {
		found, err := a.admin.Clients.EFS.DescribeFileSystems(a.t.Context(), &efs.DescribeFileSystemsInput{FileSystemId: made.FileSystemId})
		if err == nil && found.FileSystems[0].LifeCycleState != efstypes.LifeCycleStateAvailable {
			err = fmt.Errorf("it is %s", found.FileSystems[0].LifeCycleState)
		}
		return err
	})
	return *made.FileSystemId
}

// accessPoint creates an access point, as the driver does.
func (a *account) accessPoint(fileSystem, name string, tags map[string]string) string {
	a.t.Helper()
	return a.accessPointOf(fileSystem, fmt.Sprintf("%x", sha256.Sum256([]byte(name))), tags)
}

// accessPointOf creates an access point with a token.
func (a *account) accessPointOf(fileSystem, token string, tags map[string]string) string {
	a.t.Helper()
	made, err := a.admin.Clients.EFS.CreateAccessPoint(a.t.Context(), &efs.CreateAccessPointInput{FileSystemId: &fileSystem, ClientToken: &token, Tags: efsTagsOf(tags)})
	a.must(err)
	return *made.AccessPointId
}

func (a *account) mountTarget(fileSystem, subnet string, groups ...string) string {
	a.t.Helper()
	made, err := a.admin.Clients.EFS.CreateMountTarget(a.t.Context(), &efs.CreateMountTargetInput{FileSystemId: &fileSystem, SubnetId: &subnet, SecurityGroups: groups})
	a.must(err)
	return *made.MountTargetId
}

func (a *account) volume(tags map[string]string) string {
	a.t.Helper()
	made, err := a.admin.EC2.CreateVolume(a.t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: &a.Zones()[0].Name, Size: aws.Int32(10), VolumeType: "gp3",
		TagSpecifications: specification("volume", tags)})
	a.must(err)
	return *made.VolumeId
}

// snapshot creates a snapshot, as the driver does.
func (a *account) snapshot(volume string, tags map[string]string) string {
	a.t.Helper()
	return a.snapshotOf(volume, snapshotDescription+volume, tags)
}

// snapshotOf creates a snapshot with a description.
func (a *account) snapshotOf(volume, description string, tags map[string]string) string {
	a.t.Helper()
	var id string
	a.eventually("a snapshot", func() error {
		made, err := a.admin.EC2.CreateSnapshot(a.t.Context(), &ec2.CreateSnapshotInput{VolumeId: &volume, Description: &description, TagSpecifications: specification("snapshot", tags)})
		if err == nil {
			id = *made.SnapshotId
		}
		return err
	})
	return id
}

func specification(resource string, tags map[string]string) []ec2types.TagSpecification {
	specification := ec2types.TagSpecification{ResourceType: ec2types.ResourceType(resource)}
	for key, value := range tags {
		specification.Tags = append(specification.Tags, ec2types.Tag{Key: aws.String(key), Value: aws.String(value)})
	}
	if len(tags) == 0 {
		return nil
	}
	return []ec2types.TagSpecification{specification}
}

func efsTagsOf(tags map[string]string) (list []efstypes.Tag) {
	for key, value := range tags {
		list = append(list, efstypes.Tag{Key: aws.String(key), Value: aws.String(value)})
	}
	return list
}

// with returns tags and one more.
func with(tags map[string]string, key, value string) map[string]string {
	tags[key] = value
	return tags
}

func (a *account) eventually(what string, check func() error) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	require.NoErrorf(a.t, a.admin.Clients.Poll(ctx, func(context.Context) (bool, error) {
		err := check()
		return err == nil, err
	}), "waiting for %s", what)
}

// group adds a security group, as berth aws create does for a cluster.
func (a *account) group(cluster, name string) string {
	of := ownership.Cluster(cluster)
	return a.EC2.AddSecurityGroup(cloudec2.SecurityGroup{VPC: "vpc-1", Name: of.Name(name), Description: of.GroupDescription(), Tags: with(owned(cluster), GroupTag, "")}).ID
}

// fill creates the remains of two clusters. It returns the resources to delete for the first, and the rest.
func (a *account) fill() (doomed, kept []string) {
	a.t.Helper()
	group := a.group(mine, "efs")
	workers := a.EC2.AddSecurityGroup(cloudec2.SecurityGroup{VPC: "vpc-1", Name: "workers", Tags: owned(mine)}).ID
	foreign := a.group(others, "efs")
	var subnets []string
	for _, zone := range a.Zones() {
		subnet, err := a.EC2.AddSubnet(cloudec2.Subnet{VPC: "vpc-1", Zone: zone.Name})
		a.must(err)
		subnets = append(subnets, subnet.ID)
	}

	full := a.fileSystem("full", owned(mine))
	for i := range 120 { // more than a page
		doomed = append(doomed, a.accessPoint(full, fmt.Sprintf("point-%d", i), owned(mine)))
	}
	for _, subnet := range subnets {
		doomed = append(doomed, a.mountTarget(full, subnet, group))
	}
	doomed = append(doomed, full, group, a.fileSystem("empty", owned(mine)))

	theirs := a.fileSystemOf("theirs", owned(others))
	guest := a.accessPoint(theirs, "guest", owned(mine)) // which a driver made in another cluster's file system
	kept = append(kept, theirs, guest, a.accessPoint(theirs, "host", owned(others)), a.mountTarget(theirs, subnets[0], foreign), foreign, workers)

	both := a.fileSystem("both", owned(mine, others))
	kept = append(kept, both, a.fileSystem("untagged", nil), a.fileSystem("longer", owned(mine+"2")))
	crowded := a.fileSystem("crowded", owned(mine))
	kept = append(kept, crowded, a.accessPoint(crowded, "by hand", nil), a.mountTarget(crowded, subnets[0], workers))
	doomed = append(doomed, a.accessPoint(crowded, "mine", owned(mine)))

	volume := a.volume(with(owned(mine), volumeTag, "pvc-1"))
	doomed = append(doomed, volume, a.snapshot(volume, with(owned(mine), snapshotTag, "snapshot-1")))
	kept = append(kept, a.volume(owned(mine)), a.volume(with(owned(others), volumeTag, "pvc-2")), a.volume(with(owned(mine, others), volumeTag, "pvc-3")),
		a.snapshot(volume, owned(mine)))
	attached := a.volume(with(owned(mine), volumeTag, "pvc-4"))
	instance, err := a.EC2.AddInstance(cloudec2.Instance{Type: "m5.large", Zone: a.Zones()[0].Name})
	a.must(err)
	a.eventually("the volume to be attached", func() error {
		_, err := a.admin.EC2.AttachVolume(a.t.Context(), &ec2.AttachVolumeInput{InstanceId: &instance.ID, VolumeId: &attached, Device: aws.String("/dev/xvdaa")})
		return err
	})
	return doomed, append(kept, attached)
}

// left returns the IDs of all that exists.
func (a *account) left() []string {
	a.t.Helper()
	var ids []string
	for _, fs := range a.EFS.FileSystems() {
		ids = append(ids, fs.ID)
		targets, err := finder{a.admin.Clients}.mountTargets(a.t.Context(), fs.ID)
		a.must(err)
		ids = append(ids, targets...)
	}
	for _, point := range a.EFS.AccessPoints() {
		ids = append(ids, point.ID)
	}
	for _, volume := range a.EC2.Volumes() {
		ids = append(ids, volume.ID)
	}
	for _, snapshot := range a.EC2.Snapshots() {
		ids = append(ids, snapshot.ID)
	}
	for _, group := range a.EC2.SecurityGroups() {
		ids = append(ids, group.ID)
	}
	slices.Sort(ids)
	return ids
}

func (a *account) find() *Inventory {
	a.t.Helper()
	inventory, err := Find(a.t.Context(), a.admin.Clients, mine)
	a.must(err)
	return inventory
}

func ids(all []Resource) (found []string) {
	for _, r := range all {
		found = append(found, r.ID)
	}
	return found
}

func sortedIDs(ids []string) []string { return slices.Sorted(slices.Values(ids)) }

// TestDelete deletes the cluster's resources, and nothing else.
func TestDelete(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	doomed, kept := a.fill()
	inventory := a.find()
	require.Empty(t, cmp.Diff(sortedIDs(doomed), sortedIDs(ids(inventory.Delete))), "what is to be deleted (-want +got)")
	for _, r := range inventory.Keep {
		if r.Kept == "" || !slices.Contains(kept, r.ID) {
			t.Errorf("%s is kept because %q", r, r.Kept)
		}
	}
	require.Empty(t, cmp.Diff(sortedIDs(append(doomed, kept...)), a.left()), "looking has changed something (-want +got)")
	var gone []string
	a.must(Delete(t.Context(), a.admin.Clients, inventory, func(r Resource) { gone = append(gone, r.ID) }))
	assert.Empty(t, cmp.Diff(sortedIDs(doomed), sortedIDs(gone)), "what was reported to be gone (-want +got)")
	assert.Empty(t, cmp.Diff(sortedIDs(kept), a.left()), "what is left (-want +got)")
	if again := a.find(); len(again.Delete) > 0 {
		t.Errorf("afterwards, %v are still to be deleted", again.Delete)
	}
}

// TestTagsOfOthers: whoever may only set tags gives somebody else's resources the cluster's. They are kept, and their contents, too, unless an
// administrator believes their tags.
func TestTagsOfOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// make makes resources with the cluster's tags. trust is the ID to trust.
		make func(a *account) (trust string, kept []string)
		want string
	}{
		"a file system": {func(a *account) (string, []string) {
			subnet, err := a.EC2.AddSubnet(cloudec2.Subnet{VPC: "vpc-1", Zone: a.Zones()[0].Name})
			a.must(err)
			fs := a.fileSystemOf("console-1", with(owned(mine), "Name", mine+"-efs"))
			return fs, []string{fs, a.mountTarget(fs, subnet.ID), a.accessPoint(fs, "theirs", owned(mine))}
		}, `it has the creation token "console-1", want "berth-mine-x7k2p-", with which berth aws create begins`},
		"an access point in the cluster's file system": {func(a *account) (string, []string) {
			fs := a.fileSystem("efs", owned(mine))
			point := a.accessPointOf(fs, "d3b07384-d113-4ec6-a7a9-5d8c3b1d0f4e", owned(mine)) // as of the AWS CLI
			return point, []string{fs, point}
		}, `it has the token "d3b07384-d113-4ec6-a7a9-5d8c3b1d0f4e", want one that the driver or berth aws create chooses`},
		"an access point of another driver": {func(a *account) (string, []string) {
			fs := a.fileSystemOf("theirs", nil)
			return fs, []string{a.accessPoint(fs, "theirs", owned(mine))}
		}, "it has a file system that was not created for the cluster, fs-"},
		"a snapshot": {func(a *account) (string, []string) {
			volume := a.volume(nil)
			snapshot := a.snapshotOf(volume, "Created by CreateImage(i-1) for ami-1", with(owned(mine), snapshotTag, "snapshot-1"))
			return snapshot, []string{snapshot}
		}, `it has the description "Created by CreateImage(i-1) for ami-1", want "Created by AWS EBS CSI driver for volume vol-`},
		"a security group": {func(a *account) (string, []string) {
			group := a.EC2.AddSecurityGroup(cloudec2.SecurityGroup{VPC: "vpc-1", Name: mine + "-db", Description: "database", Tags: with(owned(mine), GroupTag, "")}).ID
			return group, []string{group}
		}, `it has the name "mine-x7k2p-db" and the description "database", want "mine-x7k2p-" in front`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			trust, kept := test.make(a)
			inventory := a.find()
			assert.Empty(t, inventory.Delete, "what is to be deleted")
			assert.Empty(t, cmp.Diff(sortedIDs(kept), sortedIDs(ids(inventory.Keep))), "what is kept (-want +got)")
			why := ""
			for _, r := range inventory.Keep {
				why += r.Kept + "\n"
			}
			assert.Contains(t, why, test.want)
			assert.Contains(t, why, "add --trust-tags-of "+trust)
			trusting, err := Find(t.Context(), a.admin.Clients, mine, trust)
			a.must(err)
			assert.Empty(t, cmp.Diff(sortedIDs(kept), sortedIDs(ids(trusting.Delete))), "what is deleted once the tags are trusted (-want +got)")
		})
	}
}

// TestFaults: AWS throttles, does not work for a while, and answers get lost. The end is the same.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]gateway.Fault{
		"throttled":   {Kind: gateway.Throttled, Times: 5},
		"unavailable": {Kind: gateway.Unavailable, Times: 5},
		"no answers":  {Kind: gateway.Broken, Times: 5},
		"lost":        {Kind: gateway.Broken, Times: 5, After: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			_, kept := a.fill()
			for _, action := range []string{"DescribeFileSystems", "DescribeAccessPoints", "DescribeMountTargets", "DeleteAccessPoint", "DeleteMountTarget", "DeleteFileSystem",
				"DescribeVolumes", "DescribeSnapshots", "DescribeSecurityGroups", "DeleteVolume", "DeleteSnapshot", "DeleteSecurityGroup"} {
				fault.Action = action
				a.Inject(fault)
			}
			a.must(Delete(t.Context(), a.admin.Clients, a.find(), nil))
			assert.Empty(t, cmp.Diff(sortedIDs(kept), a.left()), "what is left (-want +got)")
		})
	}
}

// TestGoneWhileListed: a file system that an earlier run deletes during the listing of its mount targets is not listed.
func TestGoneWhileListed(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	gone, stays := a.fileSystem("gone", owned(mine)), a.fileSystem("stays", owned(mine))
	a.Inject(gateway.Fault{Action: "DescribeMountTargets", Times: 1, Error: &gateway.Error{Status: http.StatusNotFound, Code: "FileSystemNotFound", Message: "File system '" + gone + "' does not exist."}})
	if got := ids(a.find().Delete); len(got) != 1 || got[0] != gone && got[0] != stays {
		t.Errorf("%v is to be deleted, want one of two file systems", got)
	}
}

// TestKilled ends the process before each request, and begins again.
func TestKilled(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	_, kept := a.fill()
	a.admin.KillAtEach(t, 20, func(ctx context.Context) error {
		inventory, err := Find(ctx, a.admin.Clients, mine)
		if err != nil {
			return err
		}
		return Delete(ctx, a.admin.Clients, inventory, nil)
	})
	assert.Empty(t, cmp.Diff(sortedIDs(kept), a.left()), "what is left (-want +got)")
}

// TestRefused: a resource that may not be deleted is reported, and delays only resources that depend on it.
func TestRefused(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	doomed, kept := a.fill()
	a.Inject(gateway.Fault{Action: "DeleteVolume", Kind: gateway.Denied})
	err := Delete(t.Context(), a.admin.Clients, a.find(), nil)
	assert.ErrorContains(t, err, "deleting volume vol-")
	for _, id := range doomed {
		if strings.HasPrefix(id, "vol-") {
			kept = append(kept, id)
		}
	}
	assert.Empty(t, cmp.Diff(sortedIDs(kept), a.left()), "what is left (-want +got)")
}

// TestMeanwhile: resources that others change after the listing are not deleted.
func TestMeanwhile(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct {
		do   func(*account, string) error
		want string
	}{
		"another cluster's access point": {func(a *account, fs string) error {
			_, err := a.admin.Clients.EFS.CreateAccessPoint(a.t.Context(), &efs.CreateAccessPointInput{ClientToken: aws.String("theirs"), FileSystemId: &fs,
				Tags: []efstypes.Tag{{Key: aws.String("kubernetes.io/cluster/" + others), Value: aws.String("owned")}}})
			return err
		}, "was created in file system"},
		"another cluster's tag": {func(a *account, fs string) error {
			_, err := a.admin.Clients.EFS.TagResource(a.t.Context(), &efs.TagResourceInput{ResourceId: &fs,
				Tags: []efstypes.Tag{{Key: aws.String("kubernetes.io/cluster/" + others), Value: aws.String("owned")}}})
			return err
		}, "its tags were changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			fs := a.fileSystem("mine", owned(mine))
			inventory := a.find()
			a.must(change.do(a, fs))
			assert.ErrorContains(t, Delete(t.Context(), a.admin.Clients, inventory, nil), change.want)
			assert.Len(t, a.EFS.FileSystems(), 1, "the file system was deleted")
		})
	}
}

// TestRefusedPoint: a file system with an access point that is not deleted stays, with its mount targets.
func TestRefusedPoint(t *testing.T) {
	t.Parallel()
	tag := []efstypes.Tag{{Key: aws.String("kubernetes.io/cluster/" + others), Value: aws.String("owned")}}
	for name, refuse := range map[string]func(a *account, point string){
		"another cluster's tag": func(a *account, point string) {
			_, err := a.admin.Clients.EFS.TagResource(a.t.Context(), &efs.TagResourceInput{ResourceId: &point, Tags: tag})
			a.must(err)
		},
		"without the cluster's tag": func(a *account, point string) {
			_, err := a.admin.Clients.EFS.UntagResource(a.t.Context(), &efs.UntagResourceInput{ResourceId: &point, TagKeys: []string{"kubernetes.io/cluster/" + mine}})
			a.must(err)
		},
		"denied": func(a *account, _ string) { a.Inject(gateway.Fault{Action: "DeleteAccessPoint", Kind: gateway.Denied}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			subnet, err := a.EC2.AddSubnet(cloudec2.Subnet{VPC: "vpc-1", Zone: a.Zones()[0].Name})
			a.must(err)
			fs := a.fileSystem("mine", owned(mine))
			point, target := a.accessPoint(fs, "point", owned(mine)), a.mountTarget(fs, subnet.ID)
			inventory := a.find()
			refuse(a, point)
			err = Delete(t.Context(), a.admin.Clients, inventory, func(r Resource) { t.Errorf("%s was deleted", r) })
			for _, want := range []string{"deleting access point " + point, "deleting mount target " + target, "deleting file system " + fs} {
				assert.ErrorContains(t, err, want)
			}
			assert.Empty(t, cmp.Diff(sortedIDs([]string{fs, point, target}), a.left()), "what is left (-want +got)")
		})
	}
}

// TestInUse: groups of kept mount targets are kept, too. What is in use for longer, or cannot be deleted, does not delay the rest.
func TestInUse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// make makes resources of the cluster, some of which cannot be deleted.
		make func(a *account, subnet string) (stay []string)
		want []string
	}{
		"a kept file system": {func(a *account, subnet string) []string {
			fs, g := a.fileSystem("kept", owned(mine)), a.group(mine, "kept")
			return []string{fs, g, a.accessPoint(fs, "by hand", nil), a.mountTarget(fs, subnet, g)}
		}, nil},
		"a mount target that may not be deleted": {func(a *account, subnet string) []string {
			fs, g := a.fileSystem("denied", owned(mine)), a.group(mine, "denied")
			a.Inject(gateway.Fault{Action: "DeleteMountTarget", Times: 1, Kind: gateway.Denied})
			return []string{fs, g, a.mountTarget(fs, subnet, g)}
		}, []string{"deleting mount target fsmt-", "deleting file system fs-", "deleting security group sg-"}},
		"a mount target of somebody's file system": {func(a *account, subnet string) []string {
			fs, g := a.fileSystem("theirs", nil), a.group(mine, "theirs")
			return []string{fs, g, a.mountTarget(fs, subnet, g)}
		}, []string{"deleting security group sg-", "DependencyViolation", "aws ec2 describe-network-interfaces --filters Name=group-id,Values=sg-"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			subnet, err := a.EC2.AddSubnet(cloudec2.Subnet{VPC: "vpc-1", Zone: a.Zones()[0].Name})
			a.must(err)
			stay := test.make(a, subnet.ID)
			for i := range 4 { // IDs are random: one of them is probably later in the order
				a.group(mine, fmt.Sprintf("unused-%d", i))
				a.fileSystem(fmt.Sprintf("unused-%d", i), owned(mine))
			}
			err = Delete(t.Context(), a.admin.Clients, a.find(), nil)
			if len(test.want) == 0 {
				a.must(err)
			}
			for _, want := range test.want {
				assert.ErrorContains(t, err, want)
			}
			assert.Empty(t, cmp.Diff(sortedIDs(stay), a.left()), "what is left (-want +got)")
		})
	}
}
