package gcp

import (
	"fmt"

	"github.com/berth-csi/berth/lab/disks"
)

// Devices keeps the content of disks, and gives real nodes their devices: SCSI disks such as /dev/sdb, with the link
// below /dev/disk/by-id that udev makes. The loop device tells the disk's name: see diskid.
type Devices struct{ disks *disks.Disks }

var _ Disks = (*Devices)(nil)

// NewDevices returns disks without any content. root returns the root folder of the node that is an instance, as this machine sees it: see
// cluster.NodeRoot. The process must run as root.
func NewDevices(root func(instance string) (string, error)) *Devices {
	return &Devices{disks.New(disks.Options{
		Root: root,
		// Instances boot from sda, which does not exist here.
		Device: scsiName,
		Link:   func(a disks.Attachment) string { return "google-" + a.Name },
	})}
}

// scsiName returns "sdb" for 1, and "sdaa" for 26, as Linux does.
func scsiName(n int) string {
	name := ""
	for ; n >= 0; n = n/26 - 1 {
		name = string(rune('a'+n%26)) + name
	}
	return "sd" + name
}

// Close removes everything, except that a disk which a node still has mounted stays until it is unmounted.
func (d *Devices) Close() error { return d.disks.Close() }

// Create makes a disk, snapshot or image.
func (d *Devices) Create(id string, bytes int64, origin string) error {
	return d.disks.Create(id, bytes, origin)
}

// Resize makes a disk and its device larger.
func (d *Devices) Resize(id string, bytes int64) error { return d.disks.Resize(id, bytes) }

// Delete removes a disk, snapshot or image.
func (d *Devices) Delete(id string) error { return d.disks.Delete(id) }

// Attach gives the node the device.
func (d *Devices) Attach(id, instance, deviceName string) error {
	return d.disks.Attach(disks.Attachment{Disk: id, Instance: instance, Name: deviceName})
}

// Detach takes the device from the node. Unlike in the cloud, it is an error if the node still uses it, which a driver must
// not let happen.
func (d *Devices) Detach(id, instance string) error {
	if err := d.disks.Detach(id, instance); err != nil {
		return fmt.Errorf("detach a disk that is in use: %w", err)
	}
	return nil
}
