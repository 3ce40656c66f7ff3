package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// detachLoopDevices detaches the loop devices of a node: their files are in its folder, or in a file system that only
// the node mounts.
func detachLoopDevices(dir string) error {
	var filesystems []uint64
	if err := readRecord(dir, filesystemsFile, &filesystems); err != nil {
		return err
	}
	files, err := filesIn(dir)
	if err != nil {
		return err
	}
	devices, err := filepath.Glob("/dev/loop[0-9]*")
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range devices {
		errs = append(errs, detachIf(path, func(info *unix.LoopInfo64) bool {
			return slices.Contains(filesystems, info.Device) || files[file{info.Device, info.Inode}]
		}))
	}
	return errors.Join(errs...)
}

// file identifies a file on this machine.
type file struct{ device, inode uint64 }

func filesIn(dir string) (map[file]bool, error) {
	files := map[file]bool{}
	return files, filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		files[file{stat.Dev, stat.Ino}] = true
		return nil
	})
}

// detachIf detaches a loop device if it has a file that ours accepts.
func detachIf(path string, ours func(*unix.LoopInfo64) bool) error {
	device, err := os.OpenFile(path, os.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) {
		return nil
	}
	if err != nil {
		return err
	}
	defer device.Close()
	info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
	if err != nil || !ours(info) {
		return nil // it has no file, or another one
	}
	if err := unix.IoctlSetInt(int(device.Fd()), unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("detach %s: %w", path, err)
	}
	return nil
}
