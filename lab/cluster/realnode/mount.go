package realnode

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Mount mounts a folder of this machine at a path of a node that runs, as an administrator mounts an export there. dir is
// the node's folder. The path need not exist. Containers see the mount if their mounts follow the node's.
func Mount(dir, folder, path string) error {
	first, err := firstProcess(dir)
	if err != nil {
		return err
	}
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", first))
	if err != nil {
		return err
	}
	defer namespace.Close()
	tree, err := unix.OpenTree(unix.AT_FDCWD, folder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("clone the mount of %s: %w", folder, err)
	}
	defer unix.Close(tree)
	return onOwnThread(func() error {
		// A thread that shares its root with others cannot enter a mount namespace.
		if err := errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS)); err != nil {
			return fmt.Errorf("enter the node's mount namespace: %w", err)
		}
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("mount %s at %s: %w", folder, path, err)
		}
		return nil
	})
}
