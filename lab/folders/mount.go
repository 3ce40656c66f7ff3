package folders

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// bind makes the folder target show the folder source. If it does already, only readOnly may change. The error is
// fs.ErrNotExist if one of them does not exist.
func bind(source, target string, readOnly bool) error {
	from, err := os.Stat(source)
	if err != nil {
		return err
	}
	to, err := os.Stat(target)
	if err != nil {
		return err
	}
	if !os.SameFile(from, to) {
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w", source, target, err)
		}
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", target, err)
	}
	return nil
}

// Unmount removes all mounts from a folder, if it is there and has any.
func Unmount(target string) error {
	for {
		err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil // not mounted, or not there
		}
		if errors.Is(err, unix.EPERM) { // the kernel refuses an ordinary user before it checks for mounts
			if mounted, readErr := IsMounted(target); readErr == nil && !mounted {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", target, err)
		}
	}
}

// IsMounted reports whether something is mounted at a folder, as far as the thread sees it.
func IsMounted(folder string) (bool, error) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return false, err
	}
	escaped := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(filepath.Clean(folder))
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == escaped {
			return true, nil
		}
	}
	return false, nil
}
