package openstack_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/snapshots"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/openstack"
)

func (c *clients) newVolume(t *testing.T, name string, change ...func(*volumes.CreateOpts)) *volumes.Volume {
	t.Helper()
	options := volumes.CreateOpts{Size: 2, Name: name}
	for _, do := range change {
		do(&options)
	}
	return must[*volumes.Volume](t)(volumes.Create(c.ctx, c.cinder, options, nil).Extract())
}

func (c *clients) volume(t *testing.T, id string) *volumes.Volume {
	t.Helper()
	return must[*volumes.Volume](t)(volumes.Get(c.ctx, c.cinder, id).Extract())
}

func (c *clients) attach(instance, volume string) error {
	_, err := volumeattach.Create(c.ctx, c.nova, instance, volumeattach.CreateOpts{VolumeID: volume}).Extract()
	return err
}

func TestVolumeLifecycle(t *testing.T) {
	cloud := openstack.Start(t)
	var disks []string
	cloud.SetDisks(openstack.Disks{
		Attach: func(a openstack.Attachment) error {
			disks = append(disks, "attach "+a.Device+" "+a.Instance.Name)
			return nil
		},
		Detach: func(a openstack.Attachment) error { disks = append(disks, "detach "+a.Device); return nil },
		Extend: func(a openstack.Attachment) error {
			assert.Equal(t, 3, a.Size, "GiB of the disk")
			disks = append(disks, "extend "+a.Device)
			return nil
		},
	})
	instance := cloud.AddInstance("worker-0")
	c := mustConnect(t, cloud.Login())
	created := c.newVolume(t, "pvc-1", func(o *volumes.CreateOpts) {
		o.Metadata, o.VolumeType, o.AvailabilityZone = map[string]string{"cluster": "one"}, "fast", "nova"
	})
	assert.Equal(t, "creating", created.Status, "a new volume")
	volume := c.volume(t, created.ID)
	if volume.Status != "available" || volume.Size != 2 || volume.VolumeType != "fast" || volume.AvailabilityZone != "nova" || volume.Metadata["cluster"] != "one" || volume.CreatedAt.IsZero() {
		t.Errorf("volume %+v", volume)
	}

	server := must[*servers.Server](t)(servers.Get(c.ctx, c.nova, instance.ID).Extract())
	if server.Name != "worker-0" || server.Status != "ACTIVE" || server.AvailabilityZone != "nova" {
		t.Errorf("server %+v", server)
	}
	require.NoError(t, c.attach(instance.ID, volume.ID))
	volume = c.volume(t, volume.ID)
	if volume.Status != "in-use" || len(volume.Attachments) != 1 || volume.Attachments[0].ServerID != instance.ID || volume.Attachments[0].Device != "/dev/vdb" {
		t.Errorf("volume %+v", volume)
	}
	got := must[*volumeattach.VolumeAttachment](t)(volumeattach.Get(c.ctx, c.nova, instance.ID, volume.ID).Extract())
	assert.Equalf(t, "/dev/vdb", got.Device, "attachment %+v", got)
	attached := must[[]volumeattach.VolumeAttachment](t)(volumeattach.ExtractVolumeAttachments(must2(t)(volumeattach.List(c.nova, instance.ID).AllPages(c.ctx))))
	if len(attached) != 1 || attached[0].VolumeID != volume.ID {
		t.Errorf("attachments %+v", attached)
	}
	wantFault(t, c.attach(instance.ID, volume.ID), 400, "already attached")
	wantFault(t, volumes.Delete(c.ctx, c.cinder, volume.ID, nil).ExtractErr(), 400, "must not be migrating, attached")

	extend := volumes.ExtendSizeOpts{NewSize: 3}
	wantFault(t, volumes.ExtendSize(c.ctx, c.cinder, volume.ID, extend).ExtractErr(), 400, "to extend, currently in-use")
	c.cinder.Microversion = "3.42"
	require.NoError(t, volumes.ExtendSize(c.ctx, c.cinder, volume.ID, extend).ExtractErr())
	if volume = c.volume(t, volume.ID); volume.Size != 3 || volume.Status != "in-use" {
		t.Errorf("the volume has %d GiB and is %s after it was extended to 3", volume.Size, volume.Status)
	}

	_, err := snapshots.Create(c.ctx, c.cinder, snapshots.CreateOpts{VolumeID: volume.ID}).Extract()
	wantFault(t, err, 400, "status must be available, but current status is: in-use.")
	snapshot := must[*snapshots.Snapshot](t)(snapshots.Create(c.ctx, c.cinder, snapshots.CreateOpts{VolumeID: volume.ID, Name: "snap", Force: true}).Extract())
	if snapshot = must[*snapshots.Snapshot](t)(snapshots.Get(c.ctx, c.cinder, snapshot.ID).Extract()); snapshot.Status != "available" || snapshot.Size != 3 {
		t.Errorf("snapshot %+v", snapshot)
	}
	restored := c.newVolume(t, "restored", func(o *volumes.CreateOpts) { o.SnapshotID, o.Size = snapshot.ID, 4 })
	clone := c.newVolume(t, "clone", func(o *volumes.CreateOpts) { o.SourceVolID, o.Size = volume.ID, 3 })
	if restored.SnapshotID != snapshot.ID || clone.SourceVolID != volume.ID {
		t.Errorf("volumes %+v and %+v", restored, clone)
	}

	assert.NoError(t, volumeattach.Delete(c.ctx, c.nova, instance.ID, volume.ID).ExtractErr())
	if volume = c.volume(t, volume.ID); volume.Status != "available" || len(volume.Attachments) > 0 {
		t.Errorf("volume %+v", volume)
	}
	wantFault(t, volumeattach.Delete(c.ctx, c.nova, instance.ID, volume.ID).ExtractErr(), 404, "is not attached to volume")
	wantFault(t, volumes.Delete(c.ctx, c.cinder, volume.ID, nil).ExtractErr(), 400, "have snapshots")
	assert.NoError(t, snapshots.Delete(c.ctx, c.cinder, snapshot.ID).ExtractErr())
	for _, id := range []string{volume.ID, restored.ID, clone.ID} {
		assert.NoError(t, volumes.Delete(c.ctx, c.cinder, id, nil).ExtractErr())
	}
	if len(cloud.Volumes()) > 0 || len(cloud.VolumeSnapshots()) > 0 {
		t.Errorf("left %+v and %+v", cloud.Volumes(), cloud.VolumeSnapshots())
	}
	assert.Empty(t, cmp.Diff([]string{"attach /dev/vdb worker-0", "extend /dev/vdb", "detach /dev/vdb"}, disks), "disks (-want +got)")
}

// TestFailedDisks: Nova has accepted a request before the hypervisor fails, so only the volume shows it.
func TestFailedDisks(t *testing.T) {
	cloud := openstack.Start(t)
	instance := cloud.AddInstance("worker-0")
	c := mustConnect(t, cloud.Login())
	volume := c.newVolume(t, "pvc-1")
	c.volume(t, volume.ID)
	broken := func(openstack.Attachment) error { return errors.New("no such disk") }
	cloud.SetDisks(openstack.Disks{Attach: broken})
	require.NoError(t, c.attach(instance.ID, volume.ID))
	if got := c.volume(t, volume.ID); got.Status != "available" || len(got.Attachments) > 0 {
		t.Errorf("volume %+v, want an available one", got)
	}
	cloud.SetDisks(openstack.Disks{Detach: broken, Extend: broken})
	cloud.Fail(openstack.AttachVolume, "")
	for range 2 { // the first one fails
		require.NoError(t, c.attach(instance.ID, volume.ID))
	}
	got := c.volume(t, volume.ID)
	if got.Status != "in-use" || got.Attachments[0].Device != "/dev/vdb" {
		t.Errorf("volume %+v, want one that is attached under the first free name", got)
	}
	assert.NoError(t, volumeattach.Delete(c.ctx, c.nova, instance.ID, volume.ID).ExtractErr())
	if got := c.volume(t, volume.ID); got.Status != "in-use" || len(got.Attachments) != 1 {
		t.Errorf("volume %+v, want one that is attached still", got)
	}
	c.cinder.Microversion = "3.42"
	assert.NoError(t, volumes.ExtendSize(c.ctx, c.cinder, volume.ID, volumes.ExtendSizeOpts{NewSize: 9}).ExtractErr())
	if got := c.volume(t, volume.ID); got.Status != "error_extending" || got.Size != 2 {
		t.Errorf("the volume is %s and has %d GiB, want error_extending and 2", got.Status, got.Size)
	}
	cloud.RemoveInstance(instance.ID)
	_, err := servers.Get(c.ctx, c.nova, instance.ID).Extract()
	wantFault(t, err, 404, "Instance "+instance.ID+" could not be found.")
}

func TestVolumeRefusals(t *testing.T) {
	cloud := openstack.Start(t)
	cloud.SetQuota(openstack.Quota{Volumes: 2, Gigabytes: 10, VolumeSnapshots: 1})
	c := mustConnect(t, cloud.Login())
	one := c.newVolume(t, "one")
	snapshot := must[*snapshots.Snapshot](t)(snapshots.Create(c.ctx, c.cinder, snapshots.CreateOpts{VolumeID: one.ID}).Extract())
	for _, test := range []struct {
		change  func(*volumes.CreateOpts)
		code    int
		message string
	}{
		{func(o *volumes.CreateOpts) { o.VolumeType = "gold" }, 404, "Volume type with name gold could not be found."},
		{func(o *volumes.CreateOpts) { o.AvailabilityZone = "moon" }, 400, "Availability zone 'moon' is invalid."},
		{func(o *volumes.CreateOpts) { o.SnapshotID = "none" }, 404, "Snapshot none could not be found."},
		{func(o *volumes.CreateOpts) { o.SnapshotID, o.Size = snapshot.ID, 1 }, 400, "cannot be smaller than the snapshot size 2GB"},
		{func(o *volumes.CreateOpts) { o.SourceVolID = "none" }, 404, "Volume none could not be found."},
		{func(o *volumes.CreateOpts) { o.Size = 0 }, 400, "must be an integer and greater than 0"},
		{func(o *volumes.CreateOpts) { o.Size = 7 }, 413, "Requested 7G, quota is 10G and 4G has been consumed."},
	} {
		options := volumes.CreateOpts{Size: 2}
		test.change(&options)
		_, err := volumes.Create(c.ctx, c.cinder, options, nil).Extract()
		wantFault(t, err, test.code, test.message)
	}
	c.newVolume(t, "two")
	_, err := volumes.Create(c.ctx, c.cinder, volumes.CreateOpts{Size: 1}, nil).Extract()
	wantFault(t, err, 413, "VolumeLimitExceeded: Maximum number of volumes allowed (2)")
	_, err = snapshots.Create(c.ctx, c.cinder, snapshots.CreateOpts{VolumeID: one.ID}).Extract()
	wantFault(t, err, 413, "SnapshotLimitExceeded")
	wantFault(t, volumes.ExtendSize(c.ctx, c.cinder, one.ID, volumes.ExtendSizeOpts{NewSize: 2}).ExtractErr(), 400, "New size for extend must be greater")
	wantFault(t, volumes.ExtendSize(c.ctx, c.cinder, one.ID, volumes.ExtendSizeOpts{NewSize: 9}).ExtractErr(), 413, "VolumeSizeExceedsAvailableQuota")
	_, err = volumes.Get(c.ctx, c.cinder, "none").Extract()
	wantFault(t, err, 404, "Volume none could not be found.")

	cloud.AddProject("island")
	login := cloud.Login()
	login.Project = "island"
	other := mustConnect(t, login)
	_, err = volumes.Get(c.ctx, other.cinder, one.ID).Extract()
	wantFault(t, err, 404, "could not be found")
	other.cinder.Endpoint = c.cinder.Endpoint // the path of another project
	_, err = volumes.Get(c.ctx, other.cinder, one.ID).Extract()
	wantFault(t, err, 400, "Malformed request url")
}

func TestMultiattach(t *testing.T) {
	cloud := openstack.Start(t)
	a, b := cloud.AddInstance("a"), cloud.AddInstance("b")
	c := mustConnect(t, cloud.Login())
	single, shared := c.newVolume(t, "single"), c.newVolume(t, "shared", func(o *volumes.CreateOpts) { o.VolumeType = "shared" })
	assert.True(t, c.volume(t, shared.ID).Multiattach, "the volume of type shared does not say multiattach")
	assert.NoError(t, c.attach(a.ID, single.ID))
	wantFault(t, c.attach(b.ID, single.ID), 400, "status must be available")
	wantFault(t, c.attach(a.ID, shared.ID), 400, "compute API version 2.60")
	c.nova.Microversion = "2.60"
	for _, instance := range []openstack.Instance{a, b} {
		assert.NoError(t, c.attach(instance.ID, shared.ID))
	}
	if got := c.volume(t, shared.ID).Attachments; len(got) != 2 || got[0].Device != "/dev/vdc" || got[1].Device != "/dev/vdb" {
		t.Errorf("attachments %+v", got)
	}
	c.nova.Microversion = ""
	for i := range 23 {
		require.NoErrorf(t, c.attach(a.ID, c.newVolume(t, "more").ID), "volume %d", i)
	}
	wantFault(t, c.attach(a.ID, c.newVolume(t, "too many").ID), 403, "maximum allowed number of disk devices (26)")
}

func TestVolumeLists(t *testing.T) {
	cloud := openstack.Start(t)
	c := mustConnect(t, cloud.Login())
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		volume := c.newVolume(t, name)
		must[any](t)(snapshots.Create(c.ctx, c.cinder, snapshots.CreateOpts{VolumeID: volume.ID, Name: name}).Extract())
	}
	names := func(options volumes.ListOpts) (names []string) {
		t.Helper()
		for _, v := range must[[]volumes.Volume](t)(volumes.ExtractVolumes(must2(t)(volumes.List(c.cinder, options).AllPages(c.ctx)))) {
			names = append(names, v.Name)
		}
		return names
	}
	before := len(cloud.Calls())
	assert.Empty(t, cmp.Diff([]string{"e", "d", "c", "b", "a"}, names(volumes.ListOpts{Limit: 2})), "volumes (-want +got)")
	assert.Equal(t, 3, len(cloud.Calls())-before, "pages")
	assert.Equal(t, []string{"c"}, names(volumes.ListOpts{Name: "c"}), "volumes of the name c")
	_, err := volumes.List(c.cinder, volumes.ListOpts{Marker: "none"}).AllPages(c.ctx)
	wantFault(t, err, 400, "marker [none] not found")
	found := must[[]snapshots.Snapshot](t)(snapshots.ExtractSnapshots(must2(t)(snapshots.List(c.cinder, snapshots.ListOpts{Name: "b", Status: "available"}).AllPages(c.ctx))))
	if len(found) != 1 || found[0].Name != "b" {
		t.Errorf("snapshots %+v", found)
	}
}
