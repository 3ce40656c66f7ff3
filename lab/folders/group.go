package folders

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// give gives everything in a folder to a group, including files created later, as a share that is mounted for a group
// does. Pods may change the folder meanwhile: nothing that they put there makes it change files outside of the folder.
func (f Features) give(folder, group string) error {
	id, err := strconv.ParseUint(group, 10, 31)
	if err != nil || !f.MountGroup {
		return status.Errorf(codes.InvalidArgument, "the volume is to be mounted for the group %q; want a number, and a driver that can do that", group)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = giveEntry(root, name, int(id))
		}
		if errors.Is(err, fs.ErrNotExist) && name != "." {
			return nil // removed meanwhile
		}
		return err
	})
}

func giveEntry(root *os.Root, name string, group int) error {
	if err := root.Lchown(name, -1, group); err != nil {
		return err
	}
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return err
	}
	return root.Chmod(name, info.Mode()|fs.ModeSetgid)
}
