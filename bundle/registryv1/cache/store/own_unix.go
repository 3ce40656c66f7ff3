//go:build unix

package store

import (
	"fmt"
	"os"
	"syscall"
)

// checkOwn fails if others may write to a folder: a checksum does not prove who wrote a file.
func checkOwn(root *os.Root) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if owner, is := info.Sys().(*syscall.Stat_t); is && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to the user with ID %d, and is not used; expected a folder of your own: set XDG_CACHE_HOME to another", owner.Uid)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("others may write to it (mode %04o), and it is not used; expected a folder of your own: run `chmod go-w` on it, or set XDG_CACHE_HOME to another", mode)
	}
	return nil
}
