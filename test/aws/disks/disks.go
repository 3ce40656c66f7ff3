// Package disks gives real nodes the volumes that a fake EC2 attaches to them.
//
// A volume is a sparse file. While it is attached, a loop device has this file, and the nodes that are the instances
// have it as an NVMe device: a device such as /dev/nvme1n1, and the link below /dev/disk/by-id that udev makes on an
// instance of the Nitro system. The EBS driver finds a volume by this link.
//
// The files have no names, and loop devices detach themselves when nothing uses them anymore. So nothing stays when the
// program ends, in whatever way.
package disks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/test/aws/ec2"
	"github.com/berth-csi/berth/test/loop"
)

// Disks keeps the content of volumes and snapshots. It is an ec2.Disks. Use New.
type Disks struct {
	root func(instanceID string) (string, error)

	mu       sync.Mutex
	contents map[string]*os.File // by the ID of a volume or snapshot
	attached map[string]*device  // by the ID of a volume
}

// device is the loop device of a volume that is attached.
type device struct {
	loop *os.File
	// files are the device and the link in the roots of instances, by their IDs.
	files map[string][]string
}

var _ ec2.Disks = (*Disks)(nil)

// New returns disks without any content. root returns the root folder of the node that is an instance, as this machine
// sees it: see cluster.NodeRoot. It needs root.
func New(root func(instanceID string) (string, error)) *Disks {
	return &Disks{root: root, contents: map[string]*os.File{}, attached: map[string]*device{}}
}

// Close removes everything, except that a volume which a node still has mounted stays until it is unmounted.
func (d *Disks) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, attached := range d.attached {
		for instance := range attached.files {
			errs = append(errs, attached.takeFrom(instance))
		}
		if err := attached.loop.Close(); !errors.Is(err, os.ErrClosed) { // as after a Detach that failed
			errs = append(errs, err)
		}
	}
	for _, content := range d.contents {
		errs = append(errs, content.Close())
	}
	clear(d.attached)
	clear(d.contents)
	return errors.Join(errs...)
}

// Create makes the disk of a volume.
func (d *Disks) Create(v ec2.Volume) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	content, err := newFile()
	if err != nil {
		return err
	}
	err = content.Truncate(bytes(v.Size))
	for _, origin := range []string{v.SnapshotID, v.SourceID} {
		if err == nil && origin != "" {
			err = d.copy(origin, content)
		}
	}
	return d.keep(v.ID, content, err)
}

// Snapshot copies what was written to the volume until now. As in EC2, what a node has only in its memory is not part of
// it. The copy is not made in one moment: it is consistent if nobody writes meanwhile.
func (d *Disks) Snapshot(s ec2.Snapshot) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	content, err := newFile()
	if err != nil {
		return err
	}
	if err = content.Truncate(bytes(s.Size)); err == nil {
		err = d.copy(s.VolumeID, content)
	}
	return d.keep(s.ID, content, err)
}

// keep keeps the content if there is no error.
func (d *Disks) keep(id string, content *os.File, err error) error {
	if err != nil {
		return fmt.Errorf("the content of %s: %w", id, errors.Join(err, content.Close()))
	}
	d.contents[id] = content
	return nil
}

// Resize makes the disk and its device larger.
func (d *Disks) Resize(v ec2.Volume) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	content, err := d.content(v.ID)
	if err != nil {
		return err
	}
	if err := content.Truncate(bytes(v.Size)); err != nil {
		return err
	}
	if attached, ok := d.attached[v.ID]; ok {
		if err := unix.IoctlSetInt(int(attached.loop.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
			return fmt.Errorf("tell %s that the volume %s has %d GiB: %w", attached.loop.Name(), v.ID, v.Size, err)
		}
	}
	return nil
}

// Delete removes a content.
func (d *Disks) Delete(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	content, err := d.content(id)
	if err != nil {
		return err
	}
	delete(d.contents, id)
	return content.Close()
}

// Attach gives the node the device. As on the Nitro system, the name in the attachment is not the name of the device.
func (d *Disks) Attach(v ec2.Volume, a ec2.Attachment) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	root, err := d.root(a.InstanceID)
	if err != nil {
		return err
	}
	attached, ok := d.attached[v.ID]
	if !ok {
		content, err := d.content(v.ID)
		if err != nil {
			return err
		}
		attachedTo, err := loop.Attach(content, "", unix.LO_FLAGS_AUTOCLEAR)
		if err != nil {
			return err
		}
		attached = &device{loop: attachedTo, files: map[string][]string{}}
		d.attached[v.ID] = attached
	}
	return attached.giveTo(a.InstanceID, root, v.ID)
}

// Limits of the wait for those who have a loop device open without using it, such as programs that look at all of them.
const (
	releaseLimit = time.Second
	releaseRetry = 10 * time.Millisecond
)

// Detach takes the device from the node. It is an error if the node still uses it, for example because it is mounted.
// As in EC2, the volume is detached when it is not used anymore and the request is repeated.
func (d *Disks) Detach(v ec2.Volume, a ec2.Attachment) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	attached, ok := d.attached[v.ID]
	if !ok {
		return nil
	}
	if err := attached.takeFrom(a.InstanceID); err != nil {
		return err
	}
	if len(attached.files) > 0 {
		return nil
	}
	if err := attached.loop.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	content, err := d.content(v.ID)
	if err != nil {
		return err
	}
	for began := time.Now(); ; time.Sleep(releaseRetry) {
		used, err := isContentOf(attached.loop.Name(), content)
		if err != nil {
			return err
		}
		if !used {
			delete(d.attached, v.ID)
			return nil
		}
		if time.Since(began) > releaseLimit {
			return fmt.Errorf("the volume %s is still in use on the instance %s, perhaps it is mounted (device %s)", v.ID, a.InstanceID, attached.loop.Name())
		}
	}
}

func (d *Disks) content(id string) (*os.File, error) {
	content, ok := d.contents[id]
	if !ok {
		return nil, fmt.Errorf("there is no content of %s", id)
	}
	return content, nil
}

// giveTo gives an instance the device. Instances have their root volume as nvme0n1, which does not exist here.
func (d *device) giveTo(instance, root, volume string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(d.loop.Fd()), &stat); err != nil {
		return err
	}
	byID := filepath.Join(root, "dev/disk/by-id")
	if err := os.MkdirAll(byID, 0o755); err != nil {
		return err
	}
	for n := 1; ; n++ {
		name := fmt.Sprintf("nvme%dn1", n)
		path := filepath.Join(root, "dev", name)
		err := unix.Mknod(path, unix.S_IFBLK|0o660, int(stat.Rdev))
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return fmt.Errorf("make the device %s: %w", path, err)
		}
		link := filepath.Join(byID, "nvme-Amazon_Elastic_Block_Store_"+strings.ReplaceAll(volume, "-", ""))
		d.files[instance] = []string{path, link}
		return os.Symlink("../../"+name, link)
	}
}

// takeFrom takes the device from an instance. The node of the instance may be gone.
func (d *device) takeFrom(instance string) error {
	for _, path := range d.files[instance] {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	delete(d.files, instance)
	return nil
}

// newFile returns a file without a name.
func newFile() (*os.File, error) {
	file, err := os.CreateTemp("", "disk-")
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}

// isContentOf tells whether a loop device has the content.
func isContentOf(loop string, content *os.File) (bool, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(content.Fd()), &stat); err != nil {
		return false, err
	}
	file, err := os.OpenFile(loop, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	info, err := unix.IoctlLoopGetStatus64(int(file.Fd()))
	if errors.Is(err, unix.ENXIO) {
		return false, nil
	}
	return err == nil && info.Device == stat.Dev && info.Inode == stat.Ino, err
}

// copy copies a content into a file, except for the parts that were never written.
func (d *Disks) copy(id string, to *os.File) error {
	from, err := d.content(id)
	if err != nil {
		return err
	}
	for end := int64(0); ; {
		start, err := from.Seek(end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // no data after end
		}
		if err != nil {
			return err
		}
		if end, err = from.Seek(start, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(to, start), io.NewSectionReader(from, start, end-start)); err != nil {
			return err
		}
	}
}

func bytes(gib int32) int64 { return int64(gib) << 30 }
