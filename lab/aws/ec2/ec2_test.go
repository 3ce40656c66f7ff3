package ec2_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ec2sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/cluster"
)

// disks records the cloud's calls.
type disks struct {
	calls []string
	fail  error
}

func (d *disks) note(format string, args ...any) error {
	d.calls = append(d.calls, fmt.Sprintf(format, args...))
	return d.fail
}
func (d *disks) Create(v ec2.Volume) error {
	return d.note("create %dGiB of %q", v.Size, v.SnapshotID+v.SourceID)
}
func (d *disks) Resize(v ec2.Volume) error     { return d.note("resize to %dGiB", v.Size) }
func (d *disks) Snapshot(s ec2.Snapshot) error { return d.note("snapshot") }
func (d *disks) Delete(id string) error        { return d.note("delete %s", id[:strings.Index(id, "-")]) }
func (d *disks) Attach(_ ec2.Volume, a ec2.Attachment) error {
	return d.note("attach %s as %s", a.InstanceID, a.Device)
}
func (d *disks) Detach(_ ec2.Volume, a ec2.Attachment) error {
	return d.note("detach %s", a.InstanceID)
}

// startEC2 starts a cloud with an instance in the first zone.
func startEC2(t *testing.T, options aws.Options) (*aws.Cloud, *ec2sdk.Client, ec2.Instance) {
	t.Helper()
	c := aws.Start(t, options)
	i, err := c.EC2.AddInstance(ec2.Instance{Type: "m5.large", Zone: c.Zones()[0].Name})
	require.NoError(t, err)
	return c, ec2sdk.NewFromConfig(c.Configure(t, c.AddUser(t, "driver", "ec2:*"))), i
}

func volumeOf(size int32, token string, tags ...string) *ec2sdk.CreateVolumeInput {
	input := &ec2sdk.CreateVolumeInput{AvailabilityZone: sdk.String("us-east-1a"), Size: &size, VolumeType: types.VolumeTypeGp3}
	if token != "" {
		input.ClientToken = &token
	}
	for _, tag := range tags {
		if len(input.TagSpecifications) == 0 {
			input.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeVolume}}
		}
		key, value, _ := strings.Cut(tag, "=")
		input.TagSpecifications[0].Tags = append(input.TagSpecifications[0].Tags, types.Tag{Key: &key, Value: &value})
	}
	return input
}

func TestVolumes(t *testing.T) {
	devices := &disks{}
	c, client, instance := startEC2(t, aws.Options{Disks: devices})
	ctx := t.Context()
	made, err := client.CreateVolume(ctx, volumeOf(4, "token", "CSIVolumeName=pvc-1", "any=thing \\ ü"))
	require.NoError(t, err)
	require.Equalf(t, types.VolumeStateCreating, made.State, "got %+v", made)
	id := made.VolumeId
	again, err := client.CreateVolume(ctx, volumeOf(4, "token", "any=thing \\ ü", "CSIVolumeName=pvc-1"))
	require.NoError(t, err)
	require.Equalf(t, *id, *again.VolumeId, "the same request gives %+v", again)
	_, err = client.CreateVolume(ctx, volumeOf(5, "token", "CSIVolumeName=pvc-1", "any=thing \\ ü"))
	aws.WantCode(t, err, "IdempotentParameterMismatch")

	named, err := client.DescribeVolumes(ctx, &ec2sdk.DescribeVolumesInput{Filters: []types.Filter{{Name: sdk.String("tag:CSIVolumeName"), Values: []string{"pvc-*"}}}})
	if err != nil || len(named.Volumes) != 1 || named.Volumes[0].State != types.VolumeStateAvailable || *named.Volumes[0].Iops != 3000 || len(named.Volumes[0].Tags) != 2 {
		t.Fatalf("by name, there is %+v, error %v", named, err)
	}
	_, err = client.DescribeVolumes(ctx, &ec2sdk.DescribeVolumesInput{VolumeIds: []string{"vol-0aaa", *id, "vol-0bbb"}})
	assert.Equal(t, "The volumes 'vol-0aaa, vol-0bbb' do not exist.", aws.WantCode(t, err, "InvalidVolume.NotFound"), "the message")

	attach := func(device string) error {
		_, err := client.AttachVolume(ctx, &ec2sdk.AttachVolumeInput{VolumeId: id, InstanceId: &instance.ID, Device: &device})
		return err
	}
	_, err = client.DetachVolume(ctx, &ec2sdk.DetachVolumeInput{VolumeId: id, InstanceId: &instance.ID})
	aws.WantCode(t, err, "IncorrectState")
	aws.WantCode(t, attach("/dev/nvme1"), "InvalidParameterValue")
	assert.Contains(t, aws.WantCode(t, attach("/dev/xvda"), "InvalidParameterValue"), "already in use", "the message")
	require.NoError(t, attach("/dev/xvdaa"))
	aws.WantCode(t, attach("/dev/xvdab"), "VolumeInUse")
	_, err = client.DeleteVolume(ctx, &ec2sdk.DeleteVolumeInput{VolumeId: id})
	aws.WantCode(t, err, "VolumeInUse")
	seen, err := client.DescribeInstances(ctx, &ec2sdk.DescribeInstancesInput{InstanceIds: []string{instance.ID}})
	require.NoError(t, err)
	mapping := seen.Reservations[0].Instances[0].BlockDeviceMappings
	if len(mapping) != 2 || *mapping[1].DeviceName != "/dev/xvdaa" || *mapping[1].Ebs.VolumeId != *id || mapping[1].Ebs.Status != types.AttachmentStatusAttached {
		t.Errorf("the instance has %+v", mapping)
	}

	modified, err := client.ModifyVolume(ctx, &ec2sdk.ModifyVolumeInput{VolumeId: id, Size: sdk.Int32(8)})
	require.NoError(t, err)
	require.Equalf(t, types.VolumeModificationStateModifying, modified.VolumeModification.ModificationState, "got %+v", modified)
	_, err = client.ModifyVolume(ctx, &ec2sdk.ModifyVolumeInput{VolumeId: id, Size: sdk.Int32(4)})
	aws.WantCode(t, err, "InvalidParameterValue")
	latest, err := client.DescribeVolumesModifications(ctx, &ec2sdk.DescribeVolumesModificationsInput{VolumeIds: []string{*id}})
	if err != nil || latest.VolumesModifications[0].ModificationState != types.VolumeModificationStateCompleted || *latest.VolumesModifications[0].OriginalSize != 4 {
		t.Fatalf("got %+v, error %v", latest, err)
	}
	for _, size := range []int32{9, 10, 11} {
		_, err := client.ModifyVolume(ctx, &ec2sdk.ModifyVolumeInput{VolumeId: id, Size: &size})
		require.NoError(t, err)
	}
	_, err = client.ModifyVolume(ctx, &ec2sdk.ModifyVolumeInput{VolumeId: id, Size: sdk.Int32(12)})
	aws.WantCode(t, err, "VolumeModificationRateExceeded")

	_, err = client.DetachVolume(ctx, &ec2sdk.DetachVolumeInput{VolumeId: id})
	require.NoError(t, err)
	_, err = client.DeleteVolume(ctx, &ec2sdk.DeleteVolumeInput{VolumeId: id})
	require.NoError(t, err)
	_, err = client.DeleteVolume(ctx, &ec2sdk.DeleteVolumeInput{VolumeId: id})
	aws.WantCode(t, err, "InvalidVolume.NotFound")
	_, err = client.CreateVolume(ctx, volumeOf(4, "token", "CSIVolumeName=pvc-1", "any=thing \\ ü"))
	aws.WantCode(t, err, "IdempotentParameterMismatch") // the token is used up
	assert.Empty(t, c.EC2.Volumes())
	want := []string{`create 4GiB of ""`, "attach " + instance.ID + " as /dev/xvdaa", "resize to 8GiB", "resize to 9GiB", "resize to 10GiB", "resize to 11GiB", "detach " + instance.ID, "delete vol"}
	assert.Equal(t, want, devices.calls, "the disks got")
}

func TestSnapshots(t *testing.T) {
	devices := &disks{}
	c, client, _ := startEC2(t, aws.Options{Disks: devices})
	ctx := t.Context()
	source, err := client.CreateVolume(ctx, volumeOf(4, ""))
	require.NoError(t, err)
	made, err := client.CreateSnapshot(ctx, &ec2sdk.CreateSnapshotInput{VolumeId: source.VolumeId, TagSpecifications: []types.TagSpecification{
		{ResourceType: types.ResourceTypeSnapshot, Tags: []types.Tag{{Key: sdk.String("CSIVolumeSnapshotName"), Value: sdk.String("snapshot-1")}}}}})
	require.NoError(t, err)
	require.Equalf(t, types.SnapshotStatePending, made.State, "got %+v", made)
	found, err := client.DescribeSnapshots(ctx, &ec2sdk.DescribeSnapshotsInput{Filters: []types.Filter{{Name: sdk.String("tag:CSIVolumeSnapshotName"), Values: []string{"snapshot-1"}}}})
	if err != nil || len(found.Snapshots) != 1 || found.Snapshots[0].State != types.SnapshotStateCompleted || *found.Snapshots[0].VolumeSize != 4 {
		t.Fatalf("got %+v, error %v", found, err)
	}
	smaller := volumeOf(1, "")
	smaller.SnapshotId = made.SnapshotId
	_, err = client.CreateVolume(ctx, smaller)
	aws.WantCode(t, err, "InvalidParameterValue")
	restored := volumeOf(6, "")
	restored.SnapshotId = made.SnapshotId
	_, err = client.CreateVolume(ctx, restored)
	require.NoError(t, err)
	clone, err := client.CopyVolumes(ctx, &ec2sdk.CopyVolumesInput{SourceVolumeId: source.VolumeId})
	if err != nil || *clone.Volumes[0].Size != 4 || *clone.Volumes[0].SourceVolumeId != *source.VolumeId {
		t.Fatalf("got %+v, error %v", clone, err)
	}
	_, err = client.DeleteSnapshot(ctx, &ec2sdk.DeleteSnapshotInput{SnapshotId: made.SnapshotId})
	require.NoError(t, err)
	_, err = client.DeleteSnapshot(ctx, &ec2sdk.DeleteSnapshotInput{SnapshotId: made.SnapshotId})
	aws.WantCode(t, err, "InvalidSnapshot.NotFound")
	assert.Empty(t, c.EC2.Snapshots())
	want := []string{`create 4GiB of ""`, "snapshot", fmt.Sprintf("create 6GiB of %q", *made.SnapshotId), fmt.Sprintf("create 4GiB of %q", *source.VolumeId), "delete snap"}
	assert.Equal(t, want, devices.calls, "the disks got")
}

// TestPages: a client gets each volume once, with any page size.
func TestPages(t *testing.T) {
	_, client, _ := startEC2(t, aws.Options{})
	for range 12 {
		_, err := client.CreateVolume(t.Context(), volumeOf(1, ""))
		require.NoError(t, err)
	}
	seen, pages := map[string]bool{}, 0
	for list := ec2sdk.NewDescribeVolumesPaginator(client, &ec2sdk.DescribeVolumesInput{MaxResults: sdk.Int32(5)}); list.HasMorePages(); pages++ {
		page, err := list.NextPage(t.Context())
		require.NoError(t, err)
		for _, v := range page.Volumes {
			seen[*v.VolumeId] = true
		}
	}
	if len(seen) != 12 || pages != 3 {
		t.Errorf("got %d volumes on %d pages, want 12 on 3", len(seen), pages)
	}
	_, err := client.DescribeVolumes(t.Context(), &ec2sdk.DescribeVolumesInput{MaxResults: sdk.Int32(4)})
	aws.WantCode(t, err, "InvalidParameterValue")
}

func TestVolumeLimits(t *testing.T) {
	c, client, instance := startEC2(t, aws.Options{})
	for name, tc := range map[string]struct {
		change        func(*ec2sdk.CreateVolumeInput)
		code, message string
	}{
		"a dry run":    {func(i *ec2sdk.CreateVolumeInput) { i.DryRun = sdk.Bool(true) }, "DryRunOperation", "would have succeeded"},
		"gp3 IOPS":     {func(i *ec2sdk.CreateVolumeInput) { i.Iops, i.DryRun = sdk.Int32(1<<31-1), sdk.Bool(true) }, "InvalidParameterValue", "is too high; maximum is 80000"},
		"IOPS per GiB": {func(i *ec2sdk.CreateVolumeInput) { i.Iops = sdk.Int32(5001) }, "InvalidParameterValue", "ratio"},
		"IOPS of st1": {func(i *ec2sdk.CreateVolumeInput) {
			i.VolumeType, i.Size, i.Iops = "st1", sdk.Int32(200), sdk.Int32(100)
		}, "InvalidParameterCombination", "parameter iops is not supported"},
		"io2":          {func(i *ec2sdk.CreateVolumeInput) { i.VolumeType, i.Iops = "io2", sdk.Int32(300000) }, "InvalidParameterCombination", "256K IOPS"},
		"no such type": {func(i *ec2sdk.CreateVolumeInput) { i.VolumeType = "gp9" }, "UnknownVolumeType", "gp9"},
		"no such zone": {func(i *ec2sdk.CreateVolumeInput) { i.AvailabilityZone = sdk.String("us-east-1z") }, "InvalidZone.NotFound", "us-east-1z"},
		"no snapshot":  {func(i *ec2sdk.CreateVolumeInput) { i.SnapshotId = sdk.String("snap-0a") }, "InvalidSnapshot.NotFound", "snap-0a"},
		"no size":      {func(i *ec2sdk.CreateVolumeInput) { i.Size = nil }, "MissingParameter", "size"},
		"a tag of AWS": {func(i *ec2sdk.CreateVolumeInput) { i.TagSpecifications = volumeOf(1, "", "aws:x=y").TagSpecifications }, "InvalidParameterValue", "reserved"},
		"too many tags": {func(i *ec2sdk.CreateVolumeInput) {
			i.TagSpecifications = volumeOf(1, "", numbered(51)...).TagSpecifications
		}, "TagLimitExceeded", "50"},
	} {
		t.Run(name, func(t *testing.T) {
			input := volumeOf(10, "")
			tc.change(input)
			_, err := client.CreateVolume(t.Context(), input)
			assert.Contains(t, aws.WantCode(t, err, tc.code), tc.message, "the message")
		})
	}
	for at := range 27 { // 28, less the root volume and the network interface, and one too many
		made, err := client.CreateVolume(t.Context(), volumeOf(1, ""))
		require.NoError(t, err)
		_, err = client.AttachVolume(t.Context(), &ec2sdk.AttachVolumeInput{VolumeId: made.VolumeId, InstanceId: &instance.ID, Device: sdk.String(fmt.Sprintf("/dev/xvd%c%c", 'a'+at/26, 'a'+at%26))})
		if at < 26 && err != nil {
			t.Fatal(err)
		}
		if at == 26 {
			aws.WantCode(t, err, "AttachmentLimitExceeded")
		}
	}
	elsewhere := volumeOf(1, "")
	elsewhere.AvailabilityZone = &c.Zones()[1].Name
	made, err := client.CreateVolume(t.Context(), elsewhere)
	require.NoError(t, err)
	_, err = client.AttachVolume(t.Context(), &ec2sdk.AttachVolumeInput{VolumeId: made.VolumeId, InstanceId: &instance.ID, Device: sdk.String("/dev/xvdcz")})
	aws.WantCode(t, err, "InvalidVolume.ZoneMismatch")
}

func numbered(n int) []string {
	var tags []string
	for i := range n {
		tags = append(tags, fmt.Sprintf("key-%d=value", i))
	}
	return tags
}

// TestSettling: volumes and attachments are in their first state for a while, and cannot be used until then.
func TestSettling(t *testing.T) {
	_, client, instance := startEC2(t, aws.Options{Settle: 300 * time.Millisecond})
	made, err := client.CreateVolume(t.Context(), volumeOf(1, ""))
	require.NoError(t, err)
	attach := &ec2sdk.AttachVolumeInput{VolumeId: made.VolumeId, InstanceId: &instance.ID, Device: sdk.String("/dev/xvdaa")}
	_, err = client.AttachVolume(t.Context(), attach)
	aws.WantCode(t, err, "IncorrectState")
	state := func() (types.Volume, error) {
		seen, err := client.DescribeVolumes(t.Context(), &ec2sdk.DescribeVolumesInput{VolumeIds: []string{*made.VolumeId}})
		if err != nil {
			return types.Volume{}, err
		}
		return seen.Volumes[0], nil
	}
	reach := func(what string, done func(types.Volume) bool) {
		t.Helper()
		cluster.Eventually(t, 10*time.Second, what, func(context.Context) error {
			v, err := state()
			if err == nil && !done(v) {
				err = fmt.Errorf("it is %s, with attachments %+v", v.State, v.Attachments)
			}
			return err
		})
	}
	reach("the volume is available", func(v types.Volume) bool { return v.State == types.VolumeStateAvailable })
	_, err = client.AttachVolume(t.Context(), attach)
	require.NoError(t, err)
	if v, err := state(); err != nil || v.Attachments[0].State != types.VolumeAttachmentStateAttaching {
		t.Errorf("got %+v, error %v", v, err)
	}
	reach("the volume is attached", func(v types.Volume) bool { return v.Attachments[0].State == types.VolumeAttachmentStateAttached })
	_, err = client.DetachVolume(t.Context(), &ec2sdk.DetachVolumeInput{VolumeId: made.VolumeId})
	require.NoError(t, err)
	if v, err := state(); err != nil || v.State != types.VolumeStateInUse || v.Attachments[0].State != types.VolumeAttachmentStateDetaching {
		t.Errorf("got %+v, error %v", v, err)
	}
	reach("the volume is detached", func(v types.Volume) bool { return v.State == types.VolumeStateAvailable })
}

// TestBrokenDisks: a failed operation of the disks changes nothing.
func TestBrokenDisks(t *testing.T) {
	devices := &disks{fail: errors.New("no space")}
	c, client, instance := startEC2(t, aws.Options{Disks: devices})
	_, err := client.CreateVolume(t.Context(), volumeOf(1, "token"))
	aws.WantCode(t, err, "InternalError")
	assert.Empty(t, c.EC2.Volumes())
	devices.fail = nil
	made, err := client.CreateVolume(t.Context(), volumeOf(1, "token"))
	require.NoError(t, err)
	devices.fail = errors.New("no loop device")
	attached, err := client.AttachVolume(t.Context(), &ec2sdk.AttachVolumeInput{VolumeId: made.VolumeId, InstanceId: &instance.ID, Device: sdk.String("/dev/xvdaa")})
	require.NoError(t, err)
	require.Equalf(t, types.VolumeAttachmentStateAttaching, attached.State, "got %+v", attached)
	seen, err := client.DescribeVolumes(t.Context(), &ec2sdk.DescribeVolumesInput{})
	require.NoError(t, err)
	assert.Equalf(t, types.VolumeAttachmentStateAttaching, seen.Volumes[0].Attachments[0].State, "got %+v", seen)
	_, err = client.ModifyVolume(t.Context(), &ec2sdk.ModifyVolumeInput{VolumeId: made.VolumeId, Size: sdk.Int32(2)})
	aws.WantCode(t, err, "InternalError")
	_, err = client.DescribeVolumesModifications(t.Context(), &ec2sdk.DescribeVolumesModificationsInput{VolumeIds: []string{*made.VolumeId}})
	aws.WantCode(t, err, "InvalidVolumeModification.NotFound")
}

func TestEC2Tags(t *testing.T) {
	c, client, instance := startEC2(t, aws.Options{})
	made, err := client.CreateVolume(t.Context(), volumeOf(1, "", "a=1", "b=2"))
	require.NoError(t, err)
	pair := func(key string, value *string) []types.Tag { return []types.Tag{{Key: &key, Value: value}} }
	ids := []string{*made.VolumeId, instance.ID}
	_, err = client.CreateTags(t.Context(), &ec2sdk.CreateTagsInput{Resources: ids, Tags: pair("c", sdk.String(""))})
	require.NoError(t, err)
	_, err = client.CreateTags(t.Context(), &ec2sdk.CreateTagsInput{Resources: append(ids, "vol-0a"), Tags: pair("d", sdk.String(""))})
	aws.WantCode(t, err, "InvalidVolume.NotFound")
	_, err = client.DeleteTags(t.Context(), &ec2sdk.DeleteTagsInput{Resources: ids, Tags: pair("a", nil)})
	require.NoError(t, err)
	_, err = client.DeleteTags(t.Context(), &ec2sdk.DeleteTagsInput{Resources: ids, Tags: pair("b", sdk.String("other"))})
	require.NoError(t, err)
	assert.Equal(t, "map[b:2 c:]", fmt.Sprint(c.EC2.Volumes()[0].Tags), "the tags")
	listed, err := client.DescribeTags(t.Context(), &ec2sdk.DescribeTagsInput{Filters: []types.Filter{{Name: sdk.String("key"), Values: []string{"c"}}}})
	if err != nil || len(listed.Tags) != 2 || listed.Tags[0].ResourceType != types.ResourceTypeInstance {
		t.Errorf("got %+v, error %v", listed, err)
	}

	// A user without permission to tag may not create tagged resources.
	limited := ec2sdk.NewFromConfig(c.Configure(t, c.AddUser(t, "limited", "ec2:CreateVolume")))
	_, err = limited.CreateVolume(t.Context(), volumeOf(1, "", "a=1"))
	assert.Contains(t, aws.WantCode(t, err, "UnauthorizedOperation"), "ec2:CreateTags", "the message")
	_, err = limited.CreateVolume(t.Context(), volumeOf(1, ""))
	assert.NoError(t, err)
}

func TestRegion(t *testing.T) {
	_, client, instance := startEC2(t, aws.Options{Region: "sea-west-1"})
	zones, err := client.DescribeAvailabilityZones(t.Context(), &ec2sdk.DescribeAvailabilityZonesInput{})
	if err != nil || len(zones.AvailabilityZones) != 3 || *zones.AvailabilityZones[0].ZoneName != "sea-west-1a" {
		t.Fatalf("got %+v, error %v", zones, err)
	}
	_, err = client.DescribeAvailabilityZones(t.Context(), &ec2sdk.DescribeAvailabilityZonesInput{DryRun: sdk.Bool(true)})
	aws.WantCode(t, err, "DryRunOperation")
	kinds, err := client.DescribeInstanceTypes(t.Context(), &ec2sdk.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{types.InstanceType(instance.Type)}})
	if err != nil || len(kinds.InstanceTypes) != 1 || *kinds.InstanceTypes[0].EbsInfo.MaximumEbsAttachments != 28 {
		t.Errorf("got %+v, error %v", kinds, err)
	}
	_, err = client.DescribeInstances(t.Context(), &ec2sdk.DescribeInstancesInput{InstanceIds: []string{"i-0a"}})
	assert.Contains(t, aws.WantCode(t, err, "InvalidInstanceID.NotFound"), "i-0a", "the message")
	_, err = client.DescribeVpcs(t.Context(), &ec2sdk.DescribeVpcsInput{})
	aws.WantCode(t, err, "InvalidAction")
}
