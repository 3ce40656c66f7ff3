// Package disks gives real nodes the disks that a fake cloud attaches to them.
//
// A disk is a sparse file. While it is attached, a loop device has this file, and the instances' nodes have a device
// with the disk's name in the cloud, and udev's link below /dev/disk/by-id, by which drivers find a disk.
//
// The files have no names, and loop devices detach themselves when nothing uses them anymore. So nothing stays when the
// program ends, even if it is killed.
package disks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/lab/loop"
)

// Options say how disks are named.
type Options struct {
	// Root returns the root folder of the node that is an instance, as this machine sees it: see cluster.NodeRoot.
	Root func(instance string) (string, error)
	// Device returns the name of an instance's nth device, such as "nvme1n1" for 1.
	Device func(n int) string
	// Link returns the name of the link to an attached disk.
	Link func(Attachment) string
}

// Attachment is a disk of an instance.
type Attachment struct {
	// Disk is the ID of the disk.
	Disk string
	// Instance is the ID of the instance.
	Instance string
	// Name is the file name that the loop device reports. It may be empty.
	Name string
}

// Disks keeps the content of disks and snapshots. Use New.
type Disks struct {
	options Options

	mu       sync.Mutex
	contents map[string]*os.File // by the ID of a disk or snapshot
	attached map[string]*device  // by the ID of a disk
}

// device is the loop device of a disk that is attached.
type device struct {
	loop *os.File
	// files are the device and the link in the roots of instances, by the instances' IDs.
	files map[string][]string
}

// New returns disks without any content. It needs root.
func New(options Options) *Disks {
	return &Disks{options: options, contents: map[string]*os.File{}, attached: map[string]*device{}}
}

// Close removes everything, except that a disk which a node still has mounted stays until it is unmounted.
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

// Create creates a disk or a snapshot. origin is the ID of the disk or snapshot to copy; without it, the content is
// empty. A snapshot lacks data that a node has not yet flushed to the disk. The copy is not atomic: it is consistent if
// nobody writes meanwhile.
func (d *Disks) Create(id string, size int64, origin string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	content, err := newFile()
	if err != nil {
		return err
	}
	if err = content.Truncate(size); err == nil && origin != "" {
		err = d.copy(origin, content)
	}
	return d.keep(id, content, err)
}

// keep keeps the content unless err is set.
func (d *Disks) keep(id string, content *os.File, err error) error {
	if err != nil {
		return fmt.Errorf("the content of %s: %w", id, errors.Join(err, content.Close()))
	}
	d.contents[id] = content
	return nil
}

// Resize makes the disk and its device larger.
func (d *Disks) Resize(id string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	content, err := d.content(id)
	if err != nil {
		return err
	}
	if err := content.Truncate(size); err != nil {
		return err
	}
	if attached, ok := d.attached[id]; ok {
		if err := unix.IoctlSetInt(int(attached.loop.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
			return fmt.Errorf("tell %s that the disk %s has %d bytes: %w", attached.loop.Name(), id, size, err)
		}
	}
	return nil
}

// Delete removes the content with an ID.
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

// Attach gives the node the device.
func (d *Disks) Attach(a Attachment) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	root, err := d.options.Root(a.Instance)
	if err != nil {
		return err
	}
	attached, ok := d.attached[a.Disk]
	if !ok {
		content, err := d.content(a.Disk)
		if err != nil {
			return err
		}
		attachedTo, err := loop.Attach(content, a.Name, unix.LO_FLAGS_AUTOCLEAR)
		if err != nil {
			return err
		}
		attached = &device{loop: attachedTo, files: map[string][]string{}}
		d.attached[a.Disk] = attached
	}
	return attached.giveTo(a.Instance, root, d.options.Device, d.options.Link(a))
}

// Limits of the wait for programs that have a loop device open without using it, such as ones that scan all devices.
const (
	releaseLimit = time.Second
	releaseRetry = 10 * time.Millisecond
)

// Detach takes the device from the node. It fails if the node still uses the device, for example because the device is mounted. The disk is
// detached when the device is not used anymore and Detach is called again.
func (d *Disks) Detach(disk, instance string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	attached, ok := d.attached[disk]
	if !ok {
		return nil
	}
	if err := attached.takeFrom(instance); err != nil {
		return err
	}
	if len(attached.files) > 0 {
		return nil
	}
	if err := attached.loop.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	content, err := d.content(disk)
	if err != nil {
		return err
	}
	for began := time.Now(); ; time.Sleep(releaseRetry) {
		used, err := isContentOf(attached.loop.Name(), content)
		if err != nil {
			return err
		}
		if !used {
			delete(d.attached, disk)
			return nil
		}
		if time.Since(began) > releaseLimit {
			return fmt.Errorf("the disk %s is still in use on the instance %s, perhaps it is mounted (device %s)", disk, instance, attached.loop.Name())
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

// giveTo gives an instance the device with the first name that is free.
func (d *device) giveTo(instance, root string, nameOf func(int) string, linkName string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(d.loop.Fd()), &stat); err != nil {
		return err
	}
	byID := filepath.Join(root, "dev/disk/by-id")
	if err := os.MkdirAll(byID, 0o755); err != nil {
		return err
	}
	for n := 1; ; n++ {
		name := nameOf(n)
		path := filepath.Join(root, "dev", name)
		err := unix.Mknod(path, unix.S_IFBLK|0o660, int(stat.Rdev))
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return fmt.Errorf("make the device %s: %w", path, err)
		}
		link := filepath.Join(byID, linkName)
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

// isContentOf reports whether a loop device has the content.
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

// copy copies the content with an ID into a file, except for the parts that were never written.
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
