// Package disks gives real nodes the volumes that a fake EC2 attaches to them, as NVMe devices of the Nitro system: a device
// such as /dev/nvme1n1, and the link below /dev/disk/by-id that udev makes there. The EBS driver finds a volume by this
// link.
package disks

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/disks"
)

// Disks keeps the content of volumes and snapshots. It is an ec2.Disks. Use New.
type Disks struct{ disks *disks.Disks }

var _ ec2.Disks = (*Disks)(nil)

// New returns disks without any content. root returns the root folder of the node that is an instance, as this machine sees it: see
// cluster.NodeRoot. The process must run as root.
func New(root func(instanceID string) (string, error)) *Disks {
	return &Disks{disks.New(disks.Options{
		Root: root,
		// Instances have their root volume as nvme0n1, which does not exist here.
		Device: func(n int) string { return fmt.Sprintf("nvme%dn1", n) },
		// As on the Nitro system, the name in the attachment is not the name of the device.
		Link: func(a disks.Attachment) string {
			return "nvme-Amazon_Elastic_Block_Store_" + strings.ReplaceAll(a.Disk, "-", "")
		},
	})}
}

// Close removes everything, except that a volume which a node still has mounted stays until it is unmounted.
func (d *Disks) Close() error { return d.disks.Close() }

// Create makes the disk of a volume.
func (d *Disks) Create(v ec2.Volume) error {
	return d.disks.Create(v.ID, bytes(v.Size), cmp.Or(v.SnapshotID, v.SourceID))
}

// Snapshot copies the current content of the volume.
func (d *Disks) Snapshot(s ec2.Snapshot) error {
	return d.disks.Create(s.ID, bytes(s.Size), s.VolumeID)
}

// Resize makes the disk and its device larger.
func (d *Disks) Resize(v ec2.Volume) error { return d.disks.Resize(v.ID, bytes(v.Size)) }

// Delete removes the content with an ID.
func (d *Disks) Delete(id string) error { return d.disks.Delete(id) }

// Attach gives the node the device.
func (d *Disks) Attach(v ec2.Volume, a ec2.Attachment) error {
	return d.disks.Attach(disks.Attachment{Disk: v.ID, Instance: a.InstanceID})
}

// Detach takes the device from the node. It is an error if the node still uses it, for example because it is mounted. As in
// EC2, the volume is detached when it is not used anymore and the request is repeated.
func (d *Disks) Detach(v ec2.Volume, a ec2.Attachment) error {
	return d.disks.Detach(v.ID, a.InstanceID)
}

func bytes(gib int32) int64 { return int64(gib) << 30 }
